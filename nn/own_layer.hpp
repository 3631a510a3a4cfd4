// Layers that a program adds for job files: `add_layer<my_layer>("my_layer")` before the program reads a job. Every
// process of a run adds the same ones.

#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.hpp"
#include "nn/own_options.hpp"

namespace troupe::nn {

namespace detail {

/// The options of an added layer.
class own_options : public added_options {
 public:
  virtual std::unique_ptr<own_options> copy() const = 0;
  virtual std::shared_ptr<module> make(const troupe::shape& sample) const = 0;
};

template <class Layer>
class options_of final : public options_with_fields<own_options, Layer> {
 public:
  using options = typename options_of_added<Layer>::type;

  std::unique_ptr<own_options> copy() const override { return std::make_unique<options_of>(*this); }
  std::shared_ptr<module> make(const troupe::shape& sample) const override {
    if constexpr (std::constructible_from<Layer, options>) {
      options fitted = this->chosen_;
      if constexpr (requires { fitted.fit(sample); }) fitted.fit(sample);
      return std::make_shared<Layer>(std::move(fitted));
    } else {
      return std::make_shared<Layer>();
    }
  }
};

void add_layer(const std::string& kind, std::shared_ptr<const own_options> with_defaults);
/// Throws `error` unless the added name is that of its options, which their errors contain.
void check_same_kind(const std::string& added, const std::string& of_options);

}  // namespace detail

/// The options of an added layer in a job file.
struct own_layer_options {
  std::string kind;
  std::shared_ptr<const detail::own_options> chosen;

  bool operator==(const own_layer_options& other) const;
};

/// Returns the added kinds, in the order of adding.
std::vector<own_layer_options> added_layers();

/// Adds `Layer` for job files as `kind`. If it has a type `options`, it is made from them: their `fields()` describe
/// the options in files, and their `fit(sample)` sets those that follow from the input. Otherwise it is made by
/// default. Throws `error` if the name is in use or invalid, or if the options have another `kind`. Thread: any; before
/// the first job is read.
template <std::derived_from<module> Layer>
void add_layer(const std::string& kind) {
  using options = typename detail::options_of<Layer>::options;
  static_assert(std::constructible_from<Layer, options> || std::default_initializable<Layer>,
                "a layer of job files is made of its `options`, or of nothing");
  if constexpr (requires { options::fields(); })
    static_assert(std::constructible_from<Layer, options>, "a layer whose options have fields is made of them");
  if constexpr (requires { std::string(options::kind); }) detail::check_same_kind(kind, options::kind);
  detail::add_layer(kind, std::make_shared<const detail::options_of<Layer>>());
}

}  // namespace troupe::nn
