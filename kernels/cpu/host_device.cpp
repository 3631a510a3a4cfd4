// The processor as a device.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/host_memory.hpp"
#include "kernels/cpu/row_groups.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t cache_line = 64;
constexpr std::size_t huge_page = std::size_t{1} << 21;
constexpr std::size_t worth_huge_pages = 2 * huge_page;

class host_event final : public event {
 public:
  bool is_over() const override { return true; }
  void wait() const override {}
};

class host_table_gradient final : public table_gradient {
 public:
  void clear(std::int64_t row_count) override {
    row_count_ = row_count;
    groups_.clear(row_count);
  }

  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) override {
    groups_.add(mode, bags, grad, grad_stride);
  }

  void group() override { grouped_ = groups_.group(1.0F); }

  std::span<const double> squared_norms(std::size_t dim, float scale) override {
    grouped_.scale = scale;
    norms_.resize(grouped_.rows.size());
    row_squared_norms(dim, grouped_, norms_.data());
    return norms_;
  }

  void apply(const update_constants& c, std::size_t dim, table_view table, optimizer_state_view state, float scale,
             bool every_row) override {
    grouped_.scale = scale;
    if (update_rows(c, row_count_, dim, table, state, grouped_, every_row, &bad_row_)) bad_row_ = -1;
  }

  std::int64_t bad_row() override { return bad_row_; }

 private:
  std::int64_t row_count_ = 0;
  row_groups groups_;
  row_gradients grouped_;
  std::vector<double> norms_;
  std::int64_t bad_row_ = -1;
};

class host_device_type final : public device {
 public:
  int number() const override { return -1; }
  std::string uuid() const override { return {}; }
  memory_use memory() const override {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return {static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) * page,
            static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * page};
  }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return allocate_on_host(bytes); }
  std::shared_ptr<std::byte> allocate_staging(std::size_t bytes) override { return allocate_on_host(bytes); }

  std::unique_ptr<stream> make_stream(matmul_precision precision, stream_priority) override {
    if (precision != matmul_precision::f32) throw device_error("the processor multiplies matrices in float32 only");
    return std::make_unique<cpu_stream>();
  }
};

}  // namespace

std::shared_ptr<std::byte> allocate_on_host(std::size_t size) {
  if (size == 0) return nullptr;
  const std::size_t alignment = size >= worth_huge_pages ? huge_page : cache_line;
  const std::size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (rounded < size) throw std::bad_alloc();
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)), std::free);
  if (memory == nullptr) throw std::bad_alloc();
  // If this fails, the system has no huge pages: the memory is only slower.
  if (alignment == huge_page) madvise(memory.get(), rounded, MADV_HUGEPAGE);
  return memory;
}

std::unique_ptr<event> cpu_stream::record() { return std::make_unique<host_event>(); }

void cpu_stream::copy(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::unique_ptr<table_gradient> cpu_stream::make_table_gradient() { return std::make_unique<host_table_gradient>(); }

device& host_device() {
  static host_device_type one;
  return one;
}

stream& host_stream() {
  static cpu_stream one;
  return one;
}

}  // namespace troupe::kernels
