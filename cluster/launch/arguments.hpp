// A program's arguments, and the errors in them that remain once CLI11 has read them.

#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace troupe::launch {

/// Returns whether `argument` is an option: begins with a dash, and is more than that.
inline bool is_option(std::string_view argument) { return argument.size() > 1 && argument.front() == '-'; }

/// Returns "--name" of "--name=value".
inline std::string option_name(const std::string& argument) { return argument.substr(0, argument.find('=')); }

/// Returns the options of `app` with their dashes.
std::vector<std::string> option_names(const CLI::App& app);

/// Suggests an option of `app` for an unknown `name`: one that contains it ("--optimizer"), else the nearest spelling.
std::string nearest_option(const std::string& name, const CLI::App& app);

/// Splits "--name=" into "--name" and an empty value: CLI11 would take the next argument as the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments);

/// Finds options given twice or without a value. CLI11 would take the next option as the value.
std::optional<fault> misused_option(const CLI::App& app);

/// Finds a value for a switch, as in `--json=yes`; or, where CLI11 failed, a missing value at the end.
std::optional<fault> misplaced_value(const CLI::App& app, const std::vector<std::string>& arguments, bool gave_up);

/// Returns the first argument that `app` does not know.
std::optional<std::string> first_extra(const CLI::App& app);

}  // namespace troupe::launch
