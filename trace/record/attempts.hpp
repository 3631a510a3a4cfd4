// The attempts at a supervised run, each of which has a run number and files of its own.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace troupe::trace {

struct sources;
struct trace_file;

struct attempt_info {
  std::uint64_t number = 0;  ///< from 1
  std::uint64_t run = 0;
  std::optional<std::uint64_t> from_step = {};  ///< after which training began; null: it had not begun
  std::uint64_t last_step = 0;                  ///< newest step of its actors
  std::uint64_t redone = 0;                     ///< steps that had to be repeated, in this attempt and before
  std::string ended = {};                       ///< why, as the next one reports; empty: it has not, or has succeeded
};

/// Returns the share of the steps of this attempt and those before that did not have to be repeated.
double goodput(const attempt_info& one);

/// The metadata key of an attempt's description.
constexpr std::string_view attempt_key = "attempt";

/// Returns the description of an attempt for the files of its leading process. `supervised`: the same for all attempts
/// at a run. `lost`: why the previous attempt ended. `redone` and `from_step` as in `attempt_info`.
boost::json::object describe_attempt(const std::string& supervised, std::uint64_t number, const std::string& lost,
                                     std::uint64_t redone, std::optional<std::uint64_t> from_step = {});

/// Returns the attempts in the files, by number; empty if the files also contain anything else.
std::vector<attempt_info> attempts_in(const std::vector<trace_file>& files);

/// Returns the run to read: the one that `from` names, the only one, or an attempt at the only supervised one.
result<std::uint64_t> choose_run(const std::vector<trace_file>& files, const std::vector<attempt_info>& attempts,
                                 const sources& from);

}  // namespace troupe::trace
