// The base of Troupe's own layers: options for job files, and code for every device.

#pragma once

#include <string>

#include "nn/module.hpp"

namespace troupe::nn {

/// `Options::kind` is the layer's name.
template <class Options>
class layer : public module {
 public:
  using options = Options;

  explicit layer(const Options& chosen = {}) : chosen_(chosen) {}

  const Options& chosen() const { return chosen_; }
  std::string type() const override { return Options::kind; }
  bool runs_on_devices() const override { return true; }

 protected:
  Options chosen_;
};

}  // namespace troupe::nn
