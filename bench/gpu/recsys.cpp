// A recommender's tables: a lookup in all of them and their update in one step, as in the benchmark of NVIDIA's
// recsys-examples (corelib/dynamicemb): 10 tables of 1,677,721 x 128, 104,857 ids of each per step, with a power law of
// exponent 1.05.

#include <fmt/format.h>

#include <map>
#include <memory>
#include <vector>

#include "bench/gpu/measurements.hpp"
#include "model/optimizer.hpp"
#include "model/zipf.hpp"

namespace troupe::bench {
namespace {

constexpr std::size_t tables = 10;
constexpr std::size_t ids_each = 23;  // per bag

/// One table, with the ids of all turns.
struct recsys_table {
  std::vector<std::int64_t> ids;
  kernels::device_array<std::int64_t> on_device;
  kernels::device_array<float> weights, first, second;
};

class recsys_step {
 public:
  recsys_step(kernels::stream& on, const sizes& s, const model::optimizer_spec& spec)
      : on_(on),
        rows_(s.rows_of_many),
        bags_(s.batch_of_many),
        constants_(model::constants_at(spec, 1)),
        gradient_(on.make_table_gradient()),
        grad_(numbers(on, bags_ * dim * tables)) {
    std::vector<std::int64_t> offsets;
    for (std::size_t b = 0; b < bags_; ++b) offsets.push_back(static_cast<std::int64_t>(b * ids_each));
    kernels::assign<std::int64_t>(on, offsets, offsets_);
    pooled_.resize(on, bags_ * dim * tables);
    const model::zipf_distribution power_law(rows_, 1.05);
    for (std::size_t t = 0; t < tables; ++t) {
      recsys_table& one = tables_[t];
      model::random_sequence random(model::mix(t));
      for (std::size_t i = 0; i < turns * bags_ * ids_each; ++i)
        one.ids.push_back(static_cast<std::int64_t>(power_law.draw(random)));
      kernels::assign<std::int64_t>(on, one.ids, one.on_device);
      one.weights = numbers(on, rows_ * dim);
      for (int i = 0; i < model::state_buffers(spec); ++i) {
        kernels::device_array<float>& state = i == 0 ? one.first : one.second;
        state.resize(on, rows_ * model::state_columns(spec, dim));
        on.fill(state.size(), 0, state.data());
      }
    }
  }

  std::size_t ids() const { return tables * bags_ * ids_each; }

  /// Enqueues the step of a turn.
  void run(std::size_t turn) {
    passes_.clear();
    steps_.clear();
    gradient_->clear();
    for (std::size_t t = 0; t < tables; ++t) {
      const recsys_table& one = tables_[t];
      const kernels::bags_view bags{
          {one.on_device.data() + turn * bags_ * ids_each, bags_ * ids_each}, {offsets_.data(), bags_}, {}};
      passes_.push_back({kernels::pooling::sum, one.weights.data(), bags, pooled_.data() + t * dim, tables * dim});
      const std::size_t table = gradient_->add_table(static_cast<std::int64_t>(rows_));
      gradient_->add(table, kernels::pooling::sum, bags, grad_.data() + t * dim, tables * dim);
      steps_.push_back({constants_, one.weights.data(), {one.first.data(), one.second.data()}, 1.0F});
    }
    on_.embedding_bags_forward(dim, row_dtype::f32, passes_);
    gradient_->group();
    gradient_->apply(dim, row_dtype::f32, steps_, false);
  }

  /// Compares a row of the last table that occurs once in turn 0, by its first number after the first step, with the
  /// same step on the host.
  void check() {
    const std::vector<std::int64_t>& ids = tables_.back().ids;
    std::map<std::int64_t, std::size_t> count;
    for (std::size_t i = 0; i < bags_ * ids_each; ++i) ++count[ids[i]];
    std::size_t at = 0;
    while (count[ids[at]] > 1) ++at;
    const auto row = static_cast<std::size_t>(ids[at]);
    std::vector<float> weights, grad, first(dim), second(dim);
    for (std::size_t d = 0; d < dim; ++d) {
      weights.push_back(number_at(row * dim + d));
      grad.push_back(number_at((at / ids_each * tables + tables - 1) * dim + d));
    }
    const auto host = kernels::host_stream().make_table_gradient();
    const std::int64_t only = 0;
    host->clear(1);
    host->add(kernels::pooling::sum, {{&only, 1}, {}, {}}, grad.data(), dim);
    host->group();
    host->apply(constants_, dim, {reinterpret_cast<std::byte*>(weights.data()), row_dtype::f32},
                {first.data(), second.data()}, 1.0F, false);
    constexpr double tolerance = 1e-5;  // a device rounds as the host does
    expect("recsys", number_on(on_, tables_.back().weights.data() + row * dim), weights[0], tolerance);
  }

 private:
  kernels::stream& on_;
  const std::size_t rows_;
  const std::size_t bags_;
  const kernels::update_constants constants_;
  std::unique_ptr<kernels::table_gradient> gradient_;
  kernels::device_array<float> grad_, pooled_;
  kernels::device_array<std::int64_t> offsets_;
  std::vector<recsys_table> tables_{tables};
  std::vector<kernels::bag_pass> passes_;
  std::vector<kernels::table_step> steps_;
};

}  // namespace

void measure_recsys(kernels::stream& on, const sizes& s, const report& to, const std::string& optimizer) {
  recsys_step step(on, s, *model::parse_optimizer(optimizer, model::optimizer_use::table));
  step.run(0);
  step.check();
  const double seconds = seconds_of(on, [&](std::size_t turn) { step.run(turn); });
  to.add({"recsys", fmt::format("{} tables of {} x {}, {}", tables, s.rows_of_many, dim, optimizer), seconds,
          static_cast<double>(step.ids()) / seconds / 1e6, "M ids/s"});
}

}  // namespace troupe::bench
