// Options that read the same in every subcommand.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "apps/subcommand.hpp"
#include "apps/text.hpp"
#include "model/text.hpp"

namespace troupe {
namespace {

constexpr std::size_t threads_max = 1024;

/// Columns that the help leaves for an option's meaning.
std::size_t help_columns() {
  constexpr std::size_t name_columns = 30;
  const std::size_t columns = std::clamp<std::size_t>(terminal_columns(STDOUT_FILENO, 100), 60, 120);
  return columns - name_columns;
}

}  // namespace

CLI::Option* add_text_option(CLI::App& app, const std::string& name, const std::string& value_name,
                             const std::string& meaning, const std::string& group) {
  CLI::Option* option = app.add_option("--" + name);
  option->description(wrapped(meaning, help_columns()));
  option->option_text(value_name);
  option->group(group);
  return option;
}

CLI::Option* add_switch(CLI::App& app, const std::string& name, const std::string& meaning, const std::string& group) {
  CLI::Option* option = app.add_flag("--" + name);
  option->description(wrapped(meaning, help_columns()));
  option->disable_flag_override();
  option->group(group);
  return option;
}

std::optional<std::string> given_text(const CLI::App& app, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw("--" + name);
  if (option == nullptr || option->count() == 0) return std::nullopt;
  return option->results().front();
}

void add_machine_options(CLI::App& app) {
  add_text_option(app, "threads", "N", "worker threads of the actor system, 1 to 1024 (default: as many as cores)",
                  "This machine");
  add_text_option(app, "device", "auto|cpu", "what computes; auto is the CPU in this version (default: auto)",
                  "This machine");
}

result<std::size_t> read_machine_options(const std::optional<std::string>& threads_text,
                                         const std::optional<std::string>& device) {
  if (device && *device != "auto" && *device != "cpu") {
    if (*device == "cuda") {
      return bad_input("--device cuda is not supported by this version of troupe; use auto or cpu");
    }
    return bad_input(fmt::format("--device {}: must be auto or cpu", printable(*device)));
  }
  if (!threads_text) return 0;
  const auto threads = parse_number<std::size_t>(*threads_text);
  if (!threads || *threads == 0 || *threads > threads_max) {
    return bad_input(
        fmt::format("--threads {}: must be a whole number between 1 and {}", printable(*threads_text), threads_max));
  }
  return *threads;
}

}  // namespace troupe
