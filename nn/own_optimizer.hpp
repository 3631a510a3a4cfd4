// Optimizers that a program adds for jobs and programs: `add_optimizer<lion>("lion")` before the first one is chosen,
// then `--dense-optimizer lion:beta1=0.95`, or `optimizer_choice{.name = "lion", .lr = 1e-4}`. Every process of a run
// adds the same ones. They compute on the processor.
//
// An optimizer updates each weight independently. Every step updates all dense weights. In a table, a step updates the
// rows in the batches, each once with its whole gradient; other rows and their state do not change, as with
// `lazy-adam`.

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/update_rule.hpp"
#include "nn/own_options.hpp"

namespace troupe::nn {

using troupe::weight_block;

/// An optimizer with its options. Made when it is chosen; everything that it must remember is in its state, which is
/// saved. Thread: any.
class own_optimizer {
 public:
  virtual ~own_optimizer() = default;
  /// The number of its state buffers: 0, 1 or 2, each with one float32 for each weight.
  virtual int state_buffers() const { return 0; }
  /// The initial value of the first buffer; the second begins with 0.
  virtual float initial_state() const { return 0; }
  /// Takes a step: updates `of.weights`, `of.first` and `of.second` at each index from the values at that index only,
  /// independent of the block. Weights stored in 16 bits are passed as float32, and rounded when it returns. Its
  /// exceptions end the run.
  virtual void update(const weight_block& of) const = 0;
};

/// Takes a step, as `own_optimizer::update` does.
using update_function = std::function<void(const weight_block& of)>;

namespace detail {

/// The options of an added optimizer.
class own_optimizer_options : public added_options {
 public:
  virtual std::unique_ptr<own_optimizer_options> copy() const = 0;
  virtual std::shared_ptr<const own_optimizer> make() const = 0;
};

template <class Optimizer>
class options_of_optimizer final : public options_with_fields<own_optimizer_options, Optimizer> {
 public:
  using options = typename options_of_added<Optimizer>::type;

  std::unique_ptr<own_optimizer_options> copy() const override { return std::make_unique<options_of_optimizer>(*this); }
  std::shared_ptr<const own_optimizer> make() const override {
    if constexpr (std::constructible_from<Optimizer, options>)
      return std::make_shared<const Optimizer>(this->chosen_);
    else
      return std::make_shared<const Optimizer>();
  }
};

void add_optimizer(const std::string& name, std::shared_ptr<const own_optimizer_options> with_defaults);

}  // namespace detail

/// An added optimizer.
struct added_optimizer {
  std::string name;
  std::shared_ptr<const detail::own_optimizer_options> with_defaults;
};

/// An added optimizer with chosen options. Thread: any.
class chosen_optimizer final : public update_rule {
 public:
  /// Makes it, and tries it on a few weights, in one and in two blocks. Throws `error` if the results differ, if the
  /// number of buffers is not 0, 1 or 2, or if it throws itself.
  chosen_optimizer(std::string name, std::unique_ptr<const detail::own_optimizer_options> options);

  const std::string& name() const { return name_; }
  const detail::own_optimizer_options& options() const { return *options_; }
  int state_buffers() const { return state_buffers_; }
  float initial_state() const { return initial_state_; }
  /// Throws `error` with its name if it throws.
  void update(const weight_block& of) const override;

 private:
  std::vector<float> tried(std::size_t first_block) const;

  std::string name_;
  std::unique_ptr<const detail::own_optimizer_options> options_;
  std::shared_ptr<const own_optimizer> made_;
  int state_buffers_ = 0;
  float initial_state_ = 0;
};

/// The same, as a choice among all optimizers.
struct own_optimizer_choice {
  std::shared_ptr<const chosen_optimizer> what;

  bool operator==(const own_optimizer_choice& other) const;
};

/// Adds `Optimizer` for jobs and programs. If it has a type `options`, it is made from them, and their `fields()`
/// describe them (option_fields.hpp); otherwise it is made by default. Throws `error` if the name, or an option's, is
/// in use or invalid. Thread: any; before the first optimizer is chosen.
template <std::derived_from<own_optimizer> Optimizer>
void add_optimizer(const std::string& name) {
  using options = typename detail::options_of_optimizer<Optimizer>::options;
  static_assert(std::constructible_from<Optimizer, options> || std::default_initializable<Optimizer>,
                "an optimizer is made of its `options`, or of nothing");
  if constexpr (requires { options::fields(); })
    static_assert(std::constructible_from<Optimizer, options>,
                  "an optimizer whose options have fields is made of them");
  detail::add_optimizer(name, std::make_shared<const detail::options_of_optimizer<Optimizer>>());
}

/// The same for a function without options; its state buffers begin with 0.
void add_optimizer(const std::string& name, int state_buffers, update_function update);

/// Returns the added optimizers, in the order of adding; they are never removed.
std::vector<added_optimizer> added_optimizers();

}  // namespace troupe::nn
