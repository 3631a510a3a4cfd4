// The program `troupe` with a custom layer, loss, metrics, optimizer and data set, which jobs name as "swish", "focal",
// "brier", "f1", "lion" and "ratings". Without arguments it trains a small job with all of them.

#include <cmath>
#include <memory>
#include <string>
#include <troupe/program.hpp>

using namespace troupe;

/// The layer's options in a job file.
struct swish_options {
  static constexpr const char* kind = "swish";
  double beta = 1;

  static const nn::option_fields<swish_options>& fields() {
    static const auto all = nn::option_fields<swish_options>().real("beta", &swish_options::beta, "a positive number",
                                                                    [](double x) { return x > 0 && x < 1000; });
    return all;
  }
};

/// y = x * sigmoid(beta * x).
class swish final : public nn::module {
 public:
  using options = swish_options;
  explicit swish(const options& chosen) : beta_(nn::checked(chosen).beta) {}

  std::string type() const override { return "swish"; }
  troupe::shape output(const tensor_view& input) const override { return input.shape(); }
  void forward(const nn::pass&, const nn::pass_numbers& numbers) const override {
    const auto x = numbers.input.as<float>();
    for (std::size_t i = 0; i < x.size(); ++i) numbers.output[i] = x[i] * gate(x[i]);
  }
  void backward(const nn::pass&, const nn::pass_numbers& numbers, const nn::gradients& of) const override {
    const auto x = numbers.input.as<float>();
    if (!of.input) return;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double s = gate(x[i]);
      of.input[i] = of.output[i] * (s + beta_ * x[i] * s * (1 - s));
    }
  }

 private:
  double gate(double x) const { return 1 / (1 + std::exp(-beta_ * x)); }

  double beta_;
};

/// The focal loss of Lin et al. (2017) with gamma 2, for a logit: (1 - p)^2 times the cross-entropy, where p is the
/// probability of the true class.
double focal(const nn::loss_sample& sample) {
  const double sign = sample.targets[0] > 0.5F ? 1 : -1;
  const double p = 1 / (1 + std::exp(-sign * sample.outputs[0]));
  const double log_p = -std::log1p(std::exp(-sign * sample.outputs[0]));
  const double rest = 1 - p;
  sample.outputs[0] = sign * rest * rest * (2 * p * log_p - rest);
  return -rest * rest * log_p;
}

/// The Brier score: the mean squared error of the probability of class 1.
double brier(const nn::metric_sample& row) {
  const double error = 1 / (1 + std::exp(-row.outputs[0])) - row.targets[0];
  return error * error;
}

/// F1 of predicting class 1 for positive logits, 2 TP / (2 TP + FP + FN), from two sums.
nn::metric_of_sums f1() {
  return {.sums = 2,
          .add =
              [](const nn::metric_sample& row, std::span<double> sums) {
                const bool predicted = row.outputs[0] > 0;
                const bool is_class_1 = row.targets[0] > 0.5F;
                sums[0] += predicted && is_class_1 ? 2 : 0;
                sums[1] += predicted != is_class_1 ? 1 : 0;
              },
          .result = [](std::span<const double> sums, std::uint64_t) { return sums[0] / (sums[0] + sums[1]); }};
}

/// Ratings of films: people and films have one of three tastes each, and match if these are equal. A row's person and
/// film are derived from its number; "ratings:N" has N rows.
class ratings final : public nn::own_data {
 public:
  explicit ratings(const std::string& rows) : rows_(rows.empty() ? 20'000 : std::stoull(rows)) {}

  nn::data_form form() const override { return {.tables = {{.rows = people}, {.rows = films}}, .classes = 2}; }
  std::uint64_t rows() const override { return rows_; }
  std::uint64_t test_rows() const override { return 1'000; }
  void read(std::span<const std::uint64_t> rows, bool test, nn::data_samples& into) const override {
    for (const std::uint64_t row : rows) {
      const std::int64_t number = (test ? rows_ + row : row) * 7'919 % (people * films);
      const std::int64_t person = number % people;
      const std::int64_t film = number / people;
      into.next();
      into.bag(0, {person});
      into.bag(1, {film});
      into.target_class(person % 3 == film % 3);
    }
  }

 private:
  static constexpr std::int64_t people = 1'000;
  static constexpr std::int64_t films = 300;

  std::uint64_t rows_;
};

/// The optimizer's options in a job.
struct lion_options {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;

  static const nn::option_fields<lion_options>& fields() {
    constexpr auto is_fraction = [](double x) { return x >= 0 && x < 1; };
    static const auto all = nn::option_fields<lion_options>()
                                .real("beta1", &lion_options::beta1, "at least 0 and below 1", is_fraction)
                                .real("beta2", &lion_options::beta2, "at least 0 and below 1", is_fraction)
                                .real("weight_decay", &lion_options::weight_decay, "a number of 0 or more",
                                      [](double x) { return x >= 0 && x < 1000; });
    return all;
  }
};

/// Lion of Chen et al. (2023): each weight moves by the learning rate, in the direction of a mean of its gradients.
class lion final : public nn::own_optimizer {
 public:
  using options = lion_options;
  explicit lion(const options& chosen) : chosen_(chosen) {}

  int state_buffers() const override { return 1; }  // the mean
  void update(const nn::weight_block& of) const override {
    for (std::size_t i = 0; i < of.weights.size(); ++i) {
      const double g = of.gradient[i];
      const double m = of.first[i];
      const double w = of.weights[i];
      const double direction = chosen_.beta1 * m + (1 - chosen_.beta1) * g;
      const double sign = direction > 0 ? 1 : direction < 0 ? -1 : 0;
      of.weights[i] = w - of.lr * (sign + chosen_.weight_decay * w);
      of.first[i] = chosen_.beta2 * m + (1 - chosen_.beta2) * g;
    }
  }

 private:
  options chosen_;
};

int main(int argc, char** argv) {
  nn::add_layer<swish>("swish");
  nn::add_loss("focal", nn::loss_form::logits, focal);
  nn::add_metric("brier", nn::loss_form::logits, brier);
  nn::add_metric("f1", nn::loss_form::logits, f1());
  nn::add_optimizer<lion>("lion");
  nn::add_data("ratings", [](const std::string& rows, std::uint64_t) { return std::make_unique<ratings>(rows); });
  if (argc > 1) return program(argc, argv);
  return program({"train", "--data", "ratings", "--loss", "focal", "--metrics", "brier,f1", "--dense-optimizer",
                  "lion:weight_decay=0.01", "--dense-lr", "0.001", "--steps", "50", "--quiet", "--layers",
                  R"([{"kind": "linear", "out": 16}, {"kind": "swish", "beta": 1.5}, {"kind": "linear", "out": 1}])"});
}
