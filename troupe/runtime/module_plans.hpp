// Plans the modules that servers make, from the requests of programs.

#pragma once

#include <cstdint>
#include <string>

#include "protocol/messages.hpp"
#include "troupe/layers.hpp"
#include "troupe/remote_options.hpp"

namespace troupe::runtime {

struct module_plan {
  msg::module_spec spec;
  std::string name;        ///< the type's name in texts for users
  std::string label;       ///< names the module for users: a table's name or index; empty if the type is enough
  std::string details;     ///< for handles: a table's shape
  bool is_trained = true;  ///< trainers' gradients make up its steps
  std::uint64_t rows = 1;  ///< of a table
  std::uint64_t dim = 1;
};

/// `table`: its index among the run's tables, which determines its initial rows. `otherwise`: its label, if the options
/// do not name it. Throws `error` if they are invalid.
module_plan plan_table(const nn::embedding_bag::options& options, std::uint64_t seed, std::uint64_t table,
                       const std::string& otherwise);

/// Plans a module of a registered type; `key`: for its initial parameters, `place`: its index among the run's modules.
/// Throws `error` if an option is out of its limits, or if the constructor does, which it calls here once.
module_plan plan_module(const detail::remote_options& options, std::uint64_t key, std::uint64_t place);

/// Returns the table with these details.
nn::embedding_bag::options table_of(const std::string& details);

}  // namespace troupe::runtime
