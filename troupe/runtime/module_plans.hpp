// What servers are told to make, from what programs ask for.

#pragma once

#include <cstdint>
#include <string>

#include "protocol/messages.hpp"
#include "troupe/layers.hpp"
#include "troupe/remote_options.hpp"

namespace troupe::runtime {

struct module_plan {
  msg::module_spec spec;
  std::string name;        ///< of the type, for people
  std::string label;       ///< which one, for people: of a table its name, or its place; empty: the type says it
  std::string details;     ///< what handles have to know: of a table, its shape
  bool is_trained = true;  ///< gradients of trainers make up its steps
  std::uint64_t rows = 1;  ///< of a table
  std::uint64_t dim = 1;
};

/// `table`: its place among those of the run, which decides its initial rows. `otherwise`: its label, if the options
/// give it no name. Throws `error` if they are invalid.
module_plan plan_table(const nn::embedding_bag::options& options, std::uint64_t seed, std::uint64_t table,
                       const std::string& otherwise);

/// A module of a registered type; `key`: of its initial parameters, `place`: among the modules of the run. Throws
/// `error` if an option is not within its limits, and as the constructor does, by which it makes one here.
module_plan plan_module(const detail::remote_options& options, std::uint64_t key, std::uint64_t place);

/// The table of such details.
nn::embedding_bag::options table_of(const std::string& details);

}  // namespace troupe::runtime
