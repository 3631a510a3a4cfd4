// The step of the hybrid model, call by call and as a graph.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "bench/gpu/measurements.hpp"
#include "model/hybrid.hpp"
#include "model/loss.hpp"
#include "model/optimizer.hpp"

namespace troupe::bench {
namespace {

constexpr std::size_t hybrid_dim = 64;

/// The hybrid model with its table on the device, one batch per turn, and SGD. The table learns from the sum over a
/// batch, not from the mean: in float32 the change by one of so many samples would vanish.
class hybrid_step {
 public:
  hybrid_step(kernels::stream& on, const sizes& s, const lookups& from, bool repeats)
      : on_(on),
        size_(s),
        from_(from),
        repeats_(repeats),
        model_({{{static_cast<std::int64_t>(s.rows), hybrid_dim, kernels::pooling::sum, false, bag}}, 0, 2},
               std::vector<std::size_t>{512, 256}),
        table_(numbers(on, s.rows * hybrid_dim)) {
    kernels::assign<float>(on, nn::initial_numbers(model_, 1).parameters, weights_);
    std::vector<std::int64_t> classes(turns * s.batch);
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = number_at(i) < 0 ? 0 : 1;
    kernels::assign<std::int64_t>(on, classes, classes_);
    grads_.resize(on, weights_.size());
    input_.resize(on, in_.count());
    outputs_.resize(on, out_.count());
    saved_.resize(on, model_.saved(in_, on));
    grad_input_.resize(on, input_.size());
    loss_.resize(on, 1);
  }

  void run(std::size_t turn) {
    table_gradient_->clear(static_cast<std::int64_t>(size_.rows));
    table_gradient_->add(kernels::pooling::sum, from_.bags(turn), grad_input_.data(), hybrid_dim);
    const auto all = [this, turn] { enqueue(turn); };
    if (repeats_)
      on_.capture_or_launch(graphs_[turn], all);
    else
      all();
  }

  double loss() const { return number_on(on_, loss_.data()); }

  /// How far a number of the table has moved.
  double moved() const {
    const std::size_t at = static_cast<std::size_t>(from_.indices(0).back()) * hybrid_dim;
    return double{number_on(on_, table_.data() + at)} - number_at(at);
  }

 private:
  void enqueue(std::size_t turn) {
    on_.embedding_bag_forward(kernels::pooling::sum, table_.data(), hybrid_dim, from_.bags(turn), input_.data(),
                              hybrid_dim);
    const nn::pass how{.stream = on_, .training = true};
    const nn::pass_numbers numbers{.parameters = {weights_.data(), parameters_},
                                   .input = {in_, input_.data()},
                                   .output = {outputs_.data(), out_},
                                   .saved = {saved_.data(), saved_.size()}};
    model_.forward(how, numbers);
    loss_of_outputs_(on_, size_.batch, {classes_.data() + turn * size_.batch, nullptr}, outputs_.data(), loss_.data());
    model_.backward(
        how, numbers,
        {.output = numbers.output, .input = {grad_input_.data(), in_}, .parameters = {grads_.data(), parameters_}});
    on_.update_dense(sgd_, weights_.size(), weights_.data(), {}, grads_.data());
    table_gradient_->group();
    table_gradient_->apply(sgd_, hybrid_dim, table_.data(), {}, static_cast<float>(size_.batch), false);
  }

  kernels::stream& on_;
  const sizes& size_;
  const lookups& from_;
  const bool repeats_;
  const model::hybrid_model model_;
  const std::vector<nn::parameter> parameters_ = model_.parameters();
  const troupe::shape in_{size_.batch, model_.in_features()};
  const troupe::shape out_ = model_.output(in_);
  const model::loss_function loss_of_outputs_ = model::loss_of(model::loss_kind::cross_entropy, out_[1]);
  const kernels::update_constants sgd_ = model::constants_at({}, 1);
  kernels::device_array<float> table_;
  kernels::device_array<float> weights_;
  kernels::device_array<float> grads_;
  kernels::device_array<std::int64_t> classes_;
  kernels::device_array<float> input_;
  kernels::device_array<float> grad_input_;
  kernels::device_array<double> loss_;
  kernels::device_array<float> outputs_;
  kernels::device_array<float> saved_;
  std::unique_ptr<kernels::table_gradient> table_gradient_ = on_.make_table_gradient();
  std::array<std::unique_ptr<kernels::graph>, turns> graphs_;
};

/// The results of the first steps.
struct outcome {
  double loss = 0;
  double moved = 0;
};

outcome measure_step(kernels::stream& on, const sizes& s, const report& to, const lookups& from, const char* precision,
                     bool repeats) {
  hybrid_step step(on, s, from, repeats);
  for (std::size_t i = 0; i < 3 * turns; ++i) step.run(i % turns);
  const outcome early{step.loss(), step.moved()};
  const double seconds = seconds_of(on, [&](std::size_t turn) { step.run(turn); });
  std::vector<double> host_seconds(64);
  for (std::size_t i = 0; i < host_seconds.size(); ++i) {
    on.synchronize();
    const auto begin = clock::now();
    step.run(i % turns);
    host_seconds[i] = seconds_since(begin);
  }
  to.add({"step", fmt::format("{}, {}", precision, repeats ? "graphs" : "call by call"), seconds,
          static_cast<double>(s.batch) / seconds, "samples/s", 0, median(host_seconds)});
  return early;
}

}  // namespace

void measure_steps(kernels::device& device, const sizes& s, const report& to, const lookups& from,
                   matmul_precision precision) {
  const auto on = device.make_stream(precision);
  const outcome called = measure_step(*on, s, to, from, name_of(precision), false);
  const outcome repeated = measure_step(*on, s, to, from, name_of(precision), true);
  if (!(called.loss > 0) || called.moved == 0)
    throw std::runtime_error(fmt::format("step: loss {}, table moved by {}", called.loss, called.moved));
  expect("loss with graphs", repeated.loss, called.loss, 1e-4);
  expect("table's change with graphs", repeated.moved, called.moved, 1e-2 * std::abs(called.moved));
}

}  // namespace troupe::bench
