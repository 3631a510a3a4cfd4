// The processor as a device.

#include <unistd.h>

#include <cstring>

#include "base/host_memory.hpp"
#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/host_table_gradient.hpp"
#include "kernels/idle_threads.hpp"

namespace troupe::kernels {

namespace {

class host_event final : public event {
 public:
  bool is_over() const override { return true; }
  void wait() const override {}
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

void cpu_stream::side_by_side(std::size_t count, std::size_t operations, const std::function<void(std::size_t)>& part,
                              const std::function<void(std::size_t)>& done) {
  constexpr std::size_t worth_help = std::size_t{1} << 23;  // takes some 100 us
  if (operations >= worth_help)
    in_parts(count, part, done);
  else
    stream::side_by_side(count, operations, part, done);
}

std::unique_ptr<event> cpu_stream::record() { return std::make_unique<host_event>(); }

void cpu_stream::copy(const void* from, void* to, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::unique_ptr<table_gradient> cpu_stream::make_table_gradient() { return std::make_unique<host_table_gradients>(); }

device& host_device() {
  static host_device_type one;
  return one;
}

stream& host_stream() {
  static cpu_stream one;
  return one;
}

}  // namespace troupe::kernels
