// The program `troupe` with a layer of one's own, which job files and --layers name as "swish". Without arguments it
// trains a small job with it.

#include <cmath>
#include <troupe/program.hpp>

using namespace troupe;

/// What a job file gives the layer.
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
  explicit swish(const options& chosen) : beta_(static_cast<float>(nn::checked(chosen).beta)) {}

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
      const float s = gate(x[i]);
      of.input[i] = of.output[i] * (s + beta_ * x[i] * s * (1 - s));
    }
  }

 private:
  float gate(float x) const { return 1 / (1 + std::exp(-beta_ * x)); }

  float beta_;
};

int main(int argc, char** argv) {
  nn::add_layer<swish>("swish");
  if (argc > 1) return program(argc, argv);
  const char* usual[] = {
      "own_layer",
      "train",
      "--data",
      "synthetic",
      "--steps",
      "50",
      "--quiet",
      "--layers",
      R"([{"kind": "linear", "out": 16}, {"kind": "swish", "beta": 1.5}, {"kind": "linear", "out": 1}])"};
  return program(std::size(usual), const_cast<char**>(usual));
}
