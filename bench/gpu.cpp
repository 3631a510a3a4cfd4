// bench_gpu: what the CUDA backend reaches on device 0 through the interface that the actors use, beside what the card
// can do, measured in the same run: a copy's bandwidth, and a large matrix product.
//
//   copy    a copy within the device; bytes read and written
//   lookup  embedding bags' forward pass; each index, each row that it names, and the pooled rows, once
//   update  a table's gradient from bags to updated rows: the gradient once for each index, and each touched row and
//           its state read and written once
//   linear  the layers of the hybrid step, and one large layer as the limit; the product's operations only. What
//           cuBLAS alone reaches at the same shapes, torch_gpu.py measures (`matmul`)
//   step    a step of the hybrid model with its table on the device. The host's time is that until the calls have
//           returned, on an idle stream, without the update of the table, which waits for the device
//
// Times are the host's between two waits for the device, over many calls: the median of several rounds. Inputs take
// turns, so that a call finds none of its own in the cache. Rows that several bags of a batch name may be there:
// `lookup` counts them each time. What each measured call computes is compared with the host before.
//
// bench/torch_gpu.py measures the same in PyTorch.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/device_array.hpp"
#include "kernels/devices.hpp"
#include "model/hybrid.hpp"
#include "model/optimizer.hpp"

namespace troupe::bench {
namespace {

using clock = std::chrono::steady_clock;
using kernels::device_array;
using kernels::matmul_precision;
using kernels::row_dtype;

constexpr std::size_t turns = 4;
constexpr std::size_t rounds = 7;
constexpr double round_seconds = 0.02;
constexpr std::size_t bag = 26;

// -- sizes and figures ------------------------------------------------------------------------------------------------

struct sizes {
  explicit sizes(std::size_t scale)
      : copied(std::max<std::size_t>(1, (std::size_t{1} << 28) / scale)),
        rows(std::max<std::size_t>(1, 1'000'000 / scale)),
        batch(std::max<std::size_t>(1, 65'536 / scale)),
        side(std::max<std::size_t>(64, 8192 / scale)) {}

  std::size_t copied;  ///< floats
  std::size_t rows;
  std::size_t batch;
  std::size_t side;  ///< of the large product
};

struct figure {
  const char* item;
  std::string what;
  double seconds;
  double rate;
  const char* unit;
  double limit = 0;         ///< of the rate; 0: none
  double host_seconds = 0;  ///< 0: not measured
};

/// Prints figures as they come, as lines of a table or of JSON.
class report {
 public:
  explicit report(bool json) : json_(json) {
    if (!json_) line("item", "what", "ms", "rate", "unit", "limit %", "host us");
  }

  void add(const figure& f) const {
    const auto share = f.limit > 0 ? fmt::format("{:.1f}", 100 * f.rate / f.limit) : std::string();
    const auto host = f.host_seconds > 0 ? fmt::format("{:.1f}", 1e6 * f.host_seconds) : std::string();
    if (json_) {
      fmt::print(R"({{"item":"{}","what":"{}","ms":{:.6g},"rate":{:.6g},"unit":"{}","limit_pct":{},"host_us":{}}})"
                 "\n",
                 f.item, f.what, 1e3 * f.seconds, f.rate, f.unit, share.empty() ? "null" : share,
                 host.empty() ? "null" : host);
    } else {
      line(f.item, f.what, fmt::format("{:.4f}", 1e3 * f.seconds), fmt::format("{:.1f}", f.rate), f.unit, share, host);
    }
    std::fflush(stdout);
  }

 private:
  static void line(const char* item, const std::string& what, const std::string& ms, const std::string& rate,
                   const char* unit, const std::string& share, const std::string& host) {
    fmt::print("{:<7} {:<36} {:>10} {:>12} {:<9} {:>7} {:>8}\n", item, what, ms, rate, unit, share, host);
  }

  bool json_;
};

// -- times ------------------------------------------------------------------------------------------------------------

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of one of the calls call(0), call(1), ...
double seconds_of(kernels::stream& on, const std::function<void(std::size_t)>& call) {
  std::size_t turn = 0;
  const auto round = [&](std::size_t calls) {
    on.synchronize();
    const auto begin = clock::now();
    for (std::size_t i = 0; i < calls; ++i) call(turn++ % turns);
    on.synchronize();
    return seconds_since(begin) / static_cast<double>(calls);
  };
  round(2 * turns);  // memory grows, graphs are learned
  std::size_t calls = turns;
  while (round(calls) * static_cast<double>(calls) < round_seconds) calls *= 2;
  std::vector<double> seconds(rounds);
  for (double& one : seconds) one = round(calls);
  return median(seconds);
}

// -- inputs and checks ------------------------------------------------------------------------------------------------

/// Numbers in [-1, 1). What is on the device repeats them, so that the host knows each of those.
const std::vector<float>& pattern() {
  static const std::vector<float> numbers = [] {
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> made(1'000'003);
    for (float& number : made) number = uniform(engine);
    return made;
  }();
  return numbers;
}

float number_at(std::size_t i) { return pattern()[i % pattern().size()]; }

template <class T>
device_array<T> repeated(kernels::stream& on, std::span<const T> numbers, std::size_t count) {
  device_array<T> all;
  all.resize(on, count);
  std::size_t filled = std::min(count, numbers.size());
  on.upload(numbers.data(), all.data(), filled * sizeof(T));
  while (filled < count) {
    const std::size_t more = std::min(filled, count - filled);
    on.copy(all.data(), all.data() + filled, more * sizeof(T));
    filled += more;
  }
  on.synchronize();
  return all;
}

device_array<float> numbers(kernels::stream& on, std::size_t count) { return repeated<float>(on, pattern(), count); }

template <class T>
T number_on(kernels::stream& on, const T* from) {
  std::vector<T> copy;
  return kernels::on_host(on, from, 1, copy)[0];
}

/// Unit in the last place of what numbers near 1 are rounded to, with room for sums of another order.
double rounding_of(matmul_precision precision) {
  switch (precision) {
    case matmul_precision::tf32:
      return 0x1p-9;
    case matmul_precision::bf16:
      return 0x1p-6;
    default:
      return 0x1p-16;
  }
}

/// Throws unless `got` is `want`, a sum of `terms` numbers in [-1, 1) that were rounded.
void expect(const char* what, double got, double want, std::size_t terms, double rounding) {
  if (std::abs(got - want) <= rounding * std::sqrt(static_cast<double>(terms))) return;
  throw std::runtime_error(fmt::format("{}: the device has computed {}, the host {}", what, got, want));
}

/// Bags of random rows, a batch for each turn.
class lookups {
 public:
  lookups(kernels::stream& on, const sizes& s) : batch_(s.batch) {
    std::mt19937_64 engine(3);
    for (std::size_t i = 0; i < turns * batch_ * bag; ++i)
      indices_.push_back(static_cast<std::int64_t>(engine() % s.rows));
    std::vector<std::int64_t> offsets;
    for (std::size_t b = 0; b < batch_; ++b) offsets.push_back(static_cast<std::int64_t>(b * bag));
    kernels::assign<std::int64_t>(on, indices_, on_device_);
    kernels::assign<std::int64_t>(on, offsets, offsets_);
  }

  std::size_t count() const { return batch_ * bag; }
  std::span<const std::int64_t> indices(std::size_t turn) const {
    return std::span(indices_).subspan(turn * count(), count());
  }
  kernels::bags_view bags(std::size_t turn) const {
    return {{on_device_.data() + turn * count(), count()}, {offsets_.data(), batch_}, {}};
  }

  /// Distinct rows in a batch; the mean of all.
  double distinct_rows() const {
    std::size_t distinct = 0;
    for (std::size_t turn = 0; turn < turns; ++turn) {
      const auto batch = indices(turn);
      std::vector<std::int64_t> sorted(batch.begin(), batch.end());
      std::ranges::sort(sorted);
      distinct += static_cast<std::size_t>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
    }
    return static_cast<double>(distinct) / turns;
  }

 private:
  std::size_t batch_;
  std::vector<std::int64_t> indices_;
  device_array<std::int64_t> on_device_;
  device_array<std::int64_t> offsets_;
};

// -- tables -----------------------------------------------------------------------------------------------------------

constexpr std::size_t dim = 128;

double measure_copy(kernels::stream& on, const sizes& s, const report& to) {
  const auto from = numbers(on, s.copied);
  device_array<float> copy;
  copy.resize(on, s.copied);
  const std::size_t bytes = s.copied * sizeof(float);
  on.copy(from.data(), copy.data(), bytes);
  expect("copy", number_on(on, copy.data() + s.copied - 1), number_at(s.copied - 1), 1, 0);
  const double seconds = seconds_of(on, [&](std::size_t) { on.copy(from.data(), copy.data(), bytes); });
  const double rate = 2 * static_cast<double>(bytes) / seconds;
  to.add({"copy", fmt::format("{} bytes", bytes), seconds, rate / 1e9, "GB/s"});
  return rate / 1e9;
}

void measure_lookup(kernels::stream& on, const sizes& s, const report& to, const lookups& from, row_dtype type,
                    double copy_rate) {
  const std::size_t width = kernels::size_of(type);
  std::vector<std::byte> stored(pattern().size() * width);
  kernels::encode(pattern().size(), pattern().data(), {stored.data(), type});
  const auto table = repeated<std::byte>(on, stored, s.rows * dim * width);
  device_array<float> out;
  out.resize(on, turns * s.batch * dim);
  const auto call = [&](std::size_t turn) {
    on.embedding_bag_forward(kernels::pooling::sum, {table.data(), type}, dim, from.bags(turn),
                             out.data() + turn * s.batch * dim, dim);
  };

  call(turns - 1);
  double want = 0;  // the last number of the last bag
  for (const std::int64_t row : from.indices(turns - 1).last(bag))
    want += number_at(static_cast<std::size_t>(row) * dim + dim - 1);
  const bool narrow = type == row_dtype::bf16;
  expect("lookup", number_on(on, out.data() + out.size() - 1), want, bag,
         rounding_of(narrow ? matmul_precision::bf16 : matmul_precision::f32));

  const double bytes = static_cast<double>(from.count() * (dim * width + sizeof(std::int64_t)) +
                                           s.batch * (dim * sizeof(float) + sizeof(std::int64_t)));
  const double seconds = seconds_of(on, call);
  to.add({"lookup", fmt::format("{} x {} {}, bags of {}", s.rows, dim, narrow ? "bf16" : "f32", bag), seconds,
          bytes / seconds / 1e9, "GB/s", copy_rate});
}

/// A table's update, on the device or on the host.
struct table_update {
  kernels::stream& on;
  kernels::update_constants constants;
  device_array<float> table;
  device_array<float> state;
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

void measure_update(kernels::stream& on, const sizes& s, const report& to, const lookups& from,
                    const std::string& optimizer, double copy_rate) {
  const auto spec = *parse_optimizer(optimizer, optimizer_use::table);
  const std::size_t columns = static_cast<std::size_t>(state_buffers(spec)) * state_columns(spec, dim);
  const auto grad = numbers(on, turns * s.batch * dim);
  table_update update{on, constants_at(spec, 1), numbers(on, s.rows * dim), {}};
  if (columns > 0) {
    update.state.resize(on, s.rows * columns);
    on.fill(update.state.size(), 0, update.state.data());
  }
  const auto call = [&](std::size_t turn) { update.run(s.rows, from.bags(turn), grad.data() + turn * s.batch * dim); };

  call(0);
  const std::int64_t row = from.indices(0).back();
  expect("update", number_on(on, update.table.data() + static_cast<std::size_t>(row) * dim),
         updated_on_host(from, row, update.constants), bag, rounding_of(matmul_precision::f32));

  const double numbers_moved =
      static_cast<double>(from.count() * dim) + 2 * from.distinct_rows() * static_cast<double>(dim + columns);
  const double seconds = seconds_of(on, call);
  to.add({"update", fmt::format("{} x {}, {}", s.rows, dim, optimizer), seconds,
          sizeof(float) * numbers_moved / seconds / 1e9, "GB/s", copy_rate});
}

// -- layers -----------------------------------------------------------------------------------------------------------

constexpr std::array<const char*, 3> precision_names = {"f32", "tf32", "bf16"};
constexpr std::array<matmul_precision, 3> precisions = {matmul_precision::f32, matmul_precision::tf32,
                                                        matmul_precision::bf16};

const char* name_of(matmul_precision precision) { return precision_names[static_cast<std::size_t>(precision)]; }

/// A fully connected layer and a batch of inputs and of outputs or their gradients for each turn.
struct layer {
  layer(kernels::stream& stream, std::size_t batch_size, std::size_t inputs, std::size_t outputs)
      : on(stream),
        batch(batch_size),
        in(inputs),
        out(outputs),
        x(numbers(on, turns * batch * in)),
        weight(numbers(on, in * out)),
        bias(numbers(on, out)),
        y(numbers(on, turns * batch * out)),
        grad_weight(numbers(on, in * out)),
        grad_bias(numbers(on, out)) {}

  void forward(std::size_t turn) {
    on.linear_forward(batch, in, out, x.data() + turn * batch * in, weight.data(), bias.data(),
                      kernels::activation::relu, y.data() + turn * batch * out);
  }
  void backward_input(std::size_t turn) {
    on.linear_backward_input(batch, in, out, weight.data(), y.data() + turn * batch * out,
                             x.data() + turn * batch * in);
  }
  void backward_parameters(std::size_t turn) {
    on.linear_backward_parameters(batch, in, out, x.data() + turn * batch * in, y.data() + turn * batch * out,
                                  grad_weight.data(), grad_bias.data());
  }

  /// Compares the first number of each result; the last comparison first, for the others overwrite its factors.
  void check(double rounding) {
    double sum = 0;
    for (std::size_t b = 0; b < batch; ++b) sum += double{number_at(b * out)} * number_at(b * in);
    backward_parameters(0);
    expect("weights' gradient", number_on(on, grad_weight.data()), sum, batch, rounding);
    sum = number_at(0);
    for (std::size_t i = 0; i < in; ++i) sum += double{number_at(i)} * number_at(i);
    forward(0);
    expect("layer's output", number_on(on, y.data()), std::max(sum, 0.0), in, rounding);
    sum = 0;
    for (std::size_t o = 0; o < out; ++o) sum += double{number_at(batch * out + o)} * number_at(o * in);
    backward_input(1);
    expect("inputs' gradient", number_on(on, x.data() + batch * in), sum, out, rounding);
  }

  kernels::stream& on;
  std::size_t batch;
  std::size_t in;
  std::size_t out;
  device_array<float> x;
  device_array<float> weight;
  device_array<float> bias;
  device_array<float> y;
  device_array<float> grad_weight;
  device_array<float> grad_bias;
};

/// Layer by layer, and before them the large one.
void measure_layers(kernels::device& device, const sizes& s, const report& to, matmul_precision precision) {
  const auto on = device.make_stream(precision);
  double limit = 0;
  const auto measure = [&](layer& l, const char* pass, void (layer::*run)(std::size_t)) {
    const double seconds = seconds_of(*on, [&](std::size_t turn) { (l.*run)(turn); });
    const double rate = 2 * static_cast<double>(l.batch) * static_cast<double>(l.in * l.out) / seconds / 1e12;
    to.add({"linear", fmt::format("{} {} to {}, {} {}", l.batch, l.in, l.out, name_of(precision), pass), seconds, rate,
            "TFLOP/s", limit});
    return rate;
  };
  {
    layer large(*on, s.side, s.side, s.side);
    large.check(rounding_of(precision));
    limit = measure(large, "forward", &layer::forward);
  }
  for (const auto& [in, out] : {std::pair<std::size_t, std::size_t>{64, 512}, {512, 256}}) {
    layer l(*on, s.batch, in, out);
    l.check(rounding_of(precision));
    measure(l, "forward", &layer::forward);
    measure(l, "inputs", &layer::backward_input);
    measure(l, "parameters", &layer::backward_parameters);
  }
}

// -- the hybrid step --------------------------------------------------------------------------------------------------

constexpr std::size_t hybrid_dim = 64;

/// The hybrid model with its table on the device, batches of which the turns have one each, and SGD. The table learns
/// from the sum over a batch, not from the mean: float32 would not show what one sample of so many changes.
class hybrid_step {
 public:
  hybrid_step(kernels::stream& on, const sizes& s, const lookups& from, bool repeats)
      : on_(on),
        size_(s),
        from_(from),
        repeats_(repeats),
        model_({{{static_cast<std::int64_t>(s.rows), hybrid_dim, kernels::pooling::sum, false, bag}}, 0, 2},
               std::vector<std::size_t>{512, 256}, loss_kind::cross_entropy),
        table_(numbers(on, s.rows * hybrid_dim)) {
    kernels::assign<float>(on, model_.initial_parameters(1), weights_);
    std::vector<std::int64_t> classes(turns * s.batch);
    for (std::size_t i = 0; i < classes.size(); ++i) classes[i] = number_at(i) < 0 ? 0 : 1;
    kernels::assign<std::int64_t>(on, classes, classes_);
    grads_.resize(on, weights_.size());
    input_.resize(on, s.batch * model_.in_features());
    grad_input_.resize(on, input_.size());
    loss_.resize(on, 1);
  }

  /// All but the update of the table.
  void compute(std::size_t turn) {
    table_gradient_->clear(static_cast<std::int64_t>(size_.rows));
    table_gradient_->add(kernels::pooling::sum, from_.bags(turn), grad_input_.data(), hybrid_dim);
    const auto all = [this, turn] { pass(turn); };
    if (repeats_)
      on_.repeat(graphs_[turn], all);
    else
      all();
  }

  /// Waits for the device.
  void update_table() {
    table_gradient_->apply(sgd_, hybrid_dim, table_.data(), {}, static_cast<float>(size_.batch), false);
  }

  void run(std::size_t turn) {
    compute(turn);
    update_table();
  }

  double loss() const { return number_on(on_, loss_.data()); }

  /// How far a number of the table has moved.
  double moved() const {
    const std::size_t at = static_cast<std::size_t>(from_.indices(0).back()) * hybrid_dim;
    return double{number_on(on_, table_.data() + at)} - number_at(at);
  }

 private:
  void pass(std::size_t turn) {
    on_.embedding_bag_forward(kernels::pooling::sum, table_.data(), hybrid_dim, from_.bags(turn), input_.data(),
                              hybrid_dim);
    float* outputs = model_.forward(on_, size_.batch, weights_.data(), input_.data(), activations_);
    model_.loss(on_, size_.batch, {classes_.data() + turn * size_.batch, nullptr}, outputs, loss_.data());
    model_.backward_inputs(on_, size_.batch, weights_.data(), input_.data(), activations_, outputs, grad_input_.data());
    model_.backward_parameters(
        on_, size_.batch, input_.data(), activations_, outputs,
        [this](parameter_range range) { return grads_.data() + range.first; }, [](parameter_range) {});
    on_.update_dense(sgd_, weights_.size(), weights_.data(), {}, grads_.data());
    table_gradient_->group();
  }

  kernels::stream& on_;
  const sizes& size_;
  const lookups& from_;
  const bool repeats_;
  const hybrid_model model_;
  const kernels::update_constants sgd_ = constants_at({}, 1);
  device_array<float> table_;
  device_array<float> weights_;
  device_array<float> grads_;
  device_array<std::int64_t> classes_;
  device_array<float> input_;
  device_array<float> grad_input_;
  device_array<double> loss_;
  hybrid_model::activations activations_;
  std::unique_ptr<kernels::table_gradient> table_gradient_ = on_.make_table_gradient();
  std::array<std::unique_ptr<kernels::graph>, turns> graphs_;
};

/// What the first steps lead to.
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
    const auto begin = clock::now();
    step.compute(i % turns);
    host_seconds[i] = seconds_since(begin);
    step.update_table();
  }
  to.add({"step", fmt::format("{}, {}", precision, repeats ? "graphs" : "call by call"), seconds,
          static_cast<double>(s.batch) / seconds, "samples/s", 0, median(host_seconds)});
  return early;
}

void measure_steps(kernels::device& device, const sizes& s, const report& to, const lookups& from,
                   matmul_precision precision) {
  const auto on = device.make_stream(precision);
  const outcome called = measure_step(*on, s, to, from, name_of(precision), false);
  const outcome repeated = measure_step(*on, s, to, from, name_of(precision), true);
  if (!(called.loss > 0) || called.moved == 0)
    throw std::runtime_error(fmt::format("step: loss {}, table moved by {}", called.loss, called.moved));
  expect("loss with graphs", repeated.loss, called.loss, 1, 1e-4);
  expect("table's change with graphs", repeated.moved, called.moved, 1, 1e-2 * std::abs(called.moved));
}

void measure(kernels::device& device, const sizes& s, const report& to) {
  const auto on = device.make_stream();
  const lookups from(*on, s);
  const double copy_rate = measure_copy(*on, s, to);
  for (const row_dtype type : {row_dtype::f32, row_dtype::bf16}) measure_lookup(*on, s, to, from, type, copy_rate);
  for (const char* optimizer : {"sgd", "rowwise-adagrad", "adagrad"})
    measure_update(*on, s, to, from, optimizer, copy_rate);
  for (const matmul_precision precision : precisions) measure_layers(device, s, to, precision);
  for (const matmul_precision precision : precisions) measure_steps(device, s, to, from, precision);
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  using namespace troupe;
  std::size_t scale = 1;
  bool json = false;
  CLI::App app("What the CUDA backend reaches on device 0.");
  app.add_option("--scale", scale, "divides tables and batches")->check(CLI::Range(1, 10'000));
  app.add_flag("--json", json, "a JSON object a line");
  CLI11_PARSE(app, argc, argv);

  kernels::device* device = nullptr;
  try {
    device = &kernels::cuda_backend().open(0);
  } catch (const kernels::device_error& error) {
    fmt::print("skipped: no CUDA device ({})\n", error.what());
    return 0;
  }
  try {
    const auto found = kernels::find_devices().devices;
    fmt::print(stderr, "{}, scale {}; limits: the copy, the large layer; cuBLAS alone: bench/torch_gpu.py, matmul\n",
               found.empty() ? "device 0" : found.front().name, scale);
    bench::measure(*device, bench::sizes(scale), bench::report(json));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
  return 0;
}
