// Reads a reference run's tensors, and its settings and results.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/replay_config.hpp"
#include "model/safetensors.hpp"

namespace troupe::model {

/// An open reference run: its file and its configuration.
struct replay_file {
  safetensors_file file;
  replay_config config;

  static result<replay_file> open(const std::string& path);

  /// Returns a fault about this file.
  tl::unexpected<fault> refuse(const std::string& why) const { return bad_input("{}: {}", file.name(), why); }

  /// Reads a tensor of any shape. Fault: it does not have `count` values.
  result<std::vector<std::int64_t>> integers(const std::string& name, std::uint64_t count) const;
  /// The same. Fault: a value is not finite in `Real` (float or double).
  template <class Real>
  result<std::vector<Real>> reals(const std::string& name, std::uint64_t count) const;
  /// The same for a tensor of the shape `shape`.
  template <class Real>
  result<std::vector<Real>> shaped(const std::string& name, const std::vector<std::uint64_t>& shape) const;

  /// Reads the tables' weights [rows, dim], PREFIX.table.T.weight. Fault: a shape differs from the configuration.
  template <class Real>
  result<std::vector<std::vector<Real>>> tables(std::string_view prefix) const;
  /// Reads the network's weights: those of its layers, PREFIX.layer.L.NAME, or the linear layers' weights and biases,
  /// PREFIX.dense.L.{weight,bias}, in order.
  template <class Real>
  result<std::vector<Real>> dense(std::string_view prefix) const;
  /// Reads the layers' buffers, PREFIX.layer.L.NAME, in order.
  template <class Real>
  result<std::vector<Real>> buffers(std::string_view prefix) const;
  /// Reads NAME, `samples` samples of a run with layers. Fault: another shape than [samples, input...].
  result<std::vector<float>> samples(const std::string& name, std::uint64_t samples) const;

 private:
  template <class Real>
  result<std::vector<Real>> of_layers(std::string_view prefix,
                                      std::vector<nn::parameter> (nn::module::*tensors)() const) const;
};

/// Returns the settings that a reference run determines; see reference_run::settings.
std::vector<setting> replay_settings(const std::string& path, const replay_config& config);

}  // namespace troupe::model
