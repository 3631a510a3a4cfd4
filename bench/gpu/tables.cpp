// Tables: a copy as their limit, the lookup of bags, and the update with the bags' gradients.

#include <fmt/format.h>

#include <memory>

#include "bench/gpu/measurements.hpp"
#include "model/optimizer.hpp"

namespace troupe::bench {
namespace {

/// A table's update, on the device or on the host.
struct table_update {
  kernels::stream& on;
  kernels::update_constants constants;
  kernels::device_array<float> table;
  kernels::device_array<float> state;
  std::unique_ptr<kernels::table_gradient> gradient = on.make_table_gradient();

  void run(std::size_t rows, const kernels::bags_view& bags, const float* grad) {
    gradient->clear(static_cast<std::int64_t>(rows));
    gradient->add(kernels::pooling::sum, bags, grad, dim);
    gradient->group();
    gradient->apply(constants, dim, table.data(), {state.data(), nullptr}, 1.0F, false);
  }
};

/// The first number of `row` after a first update with the batch of turn 0, computed on the host.
float updated_on_host(const lookups& from, std::int64_t row, const kernels::update_constants& constants) {
  kernels::stream& host = kernels::host_stream();
  const auto indices = from.indices(0);
  std::vector<float> grad;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    for (std::size_t d = 0; d < dim && indices[i] == row; ++d) grad.push_back(number_at(i / bag * dim + d));
  }
  const std::vector<std::int64_t> the_row(grad.size() / dim, 0);
  table_update one{host, constants, {}, {}};
  one.table.resize(host, dim);
  one.state.resize(host, dim);
  for (std::size_t d = 0; d < dim; ++d) one.table.data()[d] = number_at(static_cast<std::size_t>(row) * dim + d);
  host.fill(dim, 0, one.state.data());
  one.run(1, {the_row, {}, {}}, grad.data());
  return one.table.data()[0];
}

}  // namespace

double measure_copy(kernels::stream& on, const sizes& s, const report& to) {
  const auto from = numbers(on, s.copied);
  kernels::device_array<float> copy;
  copy.resize(on, s.copied);
  const std::size_t bytes = s.copied * sizeof(float);
  on.copy(from.data(), copy.data(), bytes);
  expect("copy", number_on(on, copy.data() + s.copied - 1), number_at(s.copied - 1), 0);
  const double seconds = seconds_of(on, [&](std::size_t) { on.copy(from.data(), copy.data(), bytes); });
  const double rate = 2 * static_cast<double>(bytes) / seconds;
  to.add({"copy", fmt::format("{} bytes", bytes), seconds, rate / 1e9, "GB/s"});
  return rate / 1e9;
}

void measure_lookup(kernels::stream& on, const sizes& s, const report& to, const lookups& from, row_dtype type,
                    double copy_rate) {
  const std::size_t width = size_of(type);
  std::vector<std::byte> stored(pattern().size() * width);
  kernels::encode(pattern().size(), pattern().data(), {stored.data(), type});
  const auto table = repeated<std::byte>(on, stored, s.rows * dim * width);
  kernels::device_array<float> out;
  out.resize(on, turns * s.batch * dim);
  const auto call = [&](std::size_t turn) {
    on.embedding_bag_forward(kernels::pooling::sum, {table.data(), type}, dim, from.bags(turn),
                             out.data() + turn * s.batch * dim, dim);
  };

  call(turns - 1);
  host_sum want;  // the last number of the last bag
  for (const std::int64_t row : from.indices(turns - 1).last(bag))
    want.add(number_at(static_cast<std::size_t>(row) * dim + dim - 1));
  const bool narrow = type == row_dtype::bf16;
  expect("lookup", number_on(on, out.data() + out.size() - 1), want.value,
         want.tolerance(rounding_of(narrow ? matmul_precision::bf16 : matmul_precision::f32)));

  const double bytes = static_cast<double>(from.count() * (dim * width + sizeof(std::int64_t)) +
                                           s.batch * (dim * sizeof(float) + sizeof(std::int64_t)));
  const double seconds = seconds_of(on, call);
  to.add({"lookup", fmt::format("{} x {} {}, bags of {}", s.rows, dim, narrow ? "bf16" : "f32", bag), seconds,
          bytes / seconds / 1e9, "GB/s", copy_rate});
}

void measure_update(kernels::stream& on, const sizes& s, const report& to, const lookups& from,
                    const std::string& optimizer, double copy_rate) {
  const auto spec = *model::parse_optimizer(optimizer, model::optimizer_use::table);
  const std::size_t columns = static_cast<std::size_t>(model::state_buffers(spec)) * model::state_columns(spec, dim);
  const auto grad = numbers(on, turns * s.batch * dim);
  table_update update{on, model::constants_at(spec, 1), numbers(on, s.rows * dim), {}};
  if (columns > 0) {
    update.state.resize(on, s.rows * columns);
    on.fill(update.state.size(), 0, update.state.data());
  }
  const auto call = [&](std::size_t turn) { update.run(s.rows, from.bags(turn), grad.data() + turn * s.batch * dim); };

  call(0);
  const std::int64_t row = from.indices(0).back();
  // Both sum the same few gradients in float32, and then round a few more times.
  constexpr double update_tolerance = 1e-4;
  expect("update", number_on(on, update.table.data() + static_cast<std::size_t>(row) * dim),
         updated_on_host(from, row, update.constants), update_tolerance);

  const double numbers_moved =
      static_cast<double>(from.count() * dim) + 2 * from.distinct_rows() * static_cast<double>(dim + columns);
  const double seconds = seconds_of(on, call);
  to.add({"update", fmt::format("{} x {}, {}", s.rows, dim, optimizer), seconds,
          sizeof(float) * numbers_moved / seconds / 1e9, "GB/s", copy_rate});
}

}  // namespace troupe::bench
