// The processor as a device: every call of its stream is done when it returns.

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/host_memory.hpp"
#include "kernels/cpu/row_groups.hpp"
#include "kernels/device.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/linear.hpp"
#include "kernels/loss.hpp"

namespace troupe::kernels {

namespace {

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

class host_stream_type final : public stream {
 public:
  device& where() const override { return host_device(); }
  void synchronize() override {}
  std::unique_ptr<event> record() override { return std::make_unique<host_event>(); }
  void wait(const event& /*before*/) override {}
  void repeat(std::unique_ptr<graph>& /*learned*/, const std::function<void()>& enqueue) override { enqueue(); }

  void upload(const void* host, void* to, std::size_t bytes) override { copy(host, to, bytes); }
  void download(const void* from, void* host, std::size_t bytes) override { copy(from, host, bytes); }
  void copy(const void* from, void* to, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }

  void copy_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) override {
    for (std::size_t r = 0; r < rows; ++r) std::copy_n(from.data + r * from.stride, cols, to.data + r * to.stride);
  }

  void add_columns(std::size_t rows, std::size_t cols, row_matrix<const float> from, row_matrix<float> to) override {
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < cols; ++c) to.data[r * to.stride + c] += from.data[r * from.stride + c];
  }

  void fill(std::size_t count, float value, float* x) override { std::fill_n(x, count, value); }
  void multiply(std::size_t count, float factor, float* x) override {
    for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
  }

  void relu_backward(std::size_t count, const float* y, const float* grad_y, float* grad_x) override {
    kernels::relu_backward(count, y, grad_y, grad_x);
  }

  void sum_in_rank_order(std::span<const float* const> in, std::size_t count, float scale, float* out) override {
    kernels::sum_in_rank_order(in, count, scale, out);
  }

  void squared_norm(std::size_t count, const float* x, double* result) override {
    *result = kernels::squared_norm(count, x);
  }

  void find_non_finite(std::size_t count, const float* x, non_finite* result) override {
    const std::size_t place = kernels::find_non_finite(count, x);
    *result = {place, place < count ? x[place] : 0};
  }

  void linear_forward(std::size_t batch, std::size_t in, std::size_t out, const float* x, const float* weight,
                      const float* bias, activation then, float* y) override {
    kernels::linear_forward(batch, in, out, x, weight, bias, y);
    if (then == activation::relu) relu_forward(batch * out, y, y);
  }

  void linear_backward_parameters(std::size_t batch, std::size_t in, std::size_t out, const float* x,
                                  const float* grad_y, float* grad_weight, float* grad_bias) override {
    kernels::linear_backward_parameters(batch, in, out, x, grad_y, grad_weight, grad_bias);
  }

  void linear_backward_input(std::size_t batch, std::size_t in, std::size_t out, const float* weight,
                             const float* grad_y, float* grad_x) override {
    kernels::linear_backward_input(batch, in, out, weight, grad_y, grad_x);
  }

  void pairwise_dots(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                     row_matrix<float> dots) override {
    kernels::pairwise_dots(batch, dim, x, dots);
  }

  void pairwise_dots_backward(std::size_t batch, std::size_t dim, std::span<const row_matrix<const float>> x,
                              row_matrix<const float> grad_dots, std::span<const row_matrix<float>> grad_x) override {
    kernels::pairwise_dots_backward(batch, dim, x, grad_dots, grad_x);
  }

  void softmax_cross_entropy(std::size_t batch, std::size_t classes, const float* logits, const std::int64_t* target,
                             float* grad, double* loss) override {
    *loss = kernels::softmax_cross_entropy(batch, classes, logits, target, grad);
  }

  void bce_with_logits(std::size_t batch, std::size_t outputs, const float* logits, const float* target, float* grad,
                       double* loss) override {
    *loss = kernels::bce_with_logits(batch, outputs, logits, target, grad);
  }

  void mean_squared_error(std::size_t batch, std::size_t outputs, const float* y, const float* target, float* grad,
                          double* loss) override {
    *loss = kernels::mean_squared_error(batch, outputs, y, target, grad);
  }

  void update_dense(const update_constants& c, std::size_t count, float* weights, optimizer_state_view state,
                    const float* grad) override {
    kernels::update_dense(c, count, weights, state, grad);
  }

  void embedding_bag_forward(pooling mode, const_table_view table, std::size_t dim, const bags_view& bags, float* out,
                             std::size_t out_stride) override {
    kernels::embedding_bag_forward(mode, table, dim, bags, out, out_stride);
  }

  void gather_rows(const_table_view table, std::size_t dim, std::span<const std::int64_t> indices,
                   float* out) override {
    kernels::gather_rows(table, dim, indices, out);
  }

  std::unique_ptr<table_gradient> make_table_gradient() override { return std::make_unique<host_table_gradient>(); }
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
    return std::make_unique<host_stream_type>();
  }
};

}  // namespace

device& host_device() {
  static host_device_type one;
  return one;
}

stream& host_stream() {
  static host_stream_type one;
  return one;
}

}  // namespace troupe::kernels
