// The command line: finds the subcommand, and reports syntax errors.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string_view>

#include "apps/subcommand.hpp"
#include "base/text.hpp"
#include "model/job.hpp"

namespace troupe::apps {
namespace {

bool contains(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

bool is_option(std::string_view argument) { return argument.size() > 1 && argument.front() == '-'; }

/// Returns "--name" of "--name=value".
std::string option_name(const std::string& argument) { return argument.substr(0, argument.find('=')); }

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// Suggests an option of `app` for an unknown `name`: one that contains it ("--optimizer"), else the nearest spelling.
std::string nearest_option(const std::string& name, const CLI::App& app) {
  const std::vector<std::string> all = option_names(app);
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::vector<std::string> longer;
  for (const std::string& one : all)
    if (bare.size() > 2 && one.find(bare) != one.npos) longer.push_back(one);
  return nearest(name, longer.empty() ? all : longer);
}

fault refusal(std::string message) { return {fault_kind::input, std::move(message)}; }

/// Returns the error for an argument that the subcommand does not know.
fault unknown_to(const subcommand& chosen, const std::string& argument) {
  const std::string path = "troupe " + chosen.app->get_name();
  if (!is_option(argument)) {
    const std::string reason = chosen.no_positional.empty() ? "one FILE is all it takes" : chosen.no_positional;
    return refusal(fmt::format("{} has no use for '{}': {}", path, argument, reason));
  }
  const std::string name = option_name(argument);
  return refusal(fmt::format("{} has no option {}; the nearest is {} (see '{} --help')", path, name,
                             nearest_option(name, *chosen.app), path));
}

/// Returns the error for an argument that is no subcommand, and no option of the program itself.
fault unknown_to_program(const std::vector<subcommand>& all, const CLI::App& program, const std::string& argument) {
  if (is_option(argument)) {
    const std::string name = option_name(argument);
    for (const subcommand& one : all) {
      if (contains(option_names(*one.app), name)) {
        const std::string subname = one.app->get_name();
        return refusal(fmt::format("{} belongs behind the subcommand: troupe {} {}", name, subname, name));
      }
    }
    return refusal(fmt::format("troupe has no option {}; the nearest is {} (see 'troupe --help')", name,
                               nearest_option(name, program)));
  }
  std::vector<std::string> names;
  for (const subcommand& one : all) names.push_back(one.app->get_name());
  return refusal(fmt::format("troupe has no subcommand '{}'; the nearest is '{}' (see 'troupe --help')", argument,
                             nearest(argument, names)));
}

/// Finds options given twice or without a value. CLI11 would take the next option as the value.
std::optional<fault> misused_option(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 1 && option->get_expected_max() <= 1)
      return refusal(fmt::format("{} is given {} times; once is enough", name, option->count()));
    if (option->count() == 0 || option->get_expected_max() == 0) continue;
    const std::string& value = option->results().front();
    if (value.rfind("--", 0) == 0) return refusal(fmt::format("{} needs a value, but {} follows", name, value));
  }
  return std::nullopt;
}

/// Finds a value for a switch, as in `--json=yes`; or, where CLI11 failed, a missing value at the end.
std::optional<fault> misplaced_value(const CLI::App& app, const std::vector<std::string>& arguments, bool gave_up) {
  for (const std::string& argument : arguments) {
    const std::string name = option_name(argument);
    const CLI::Option* option = is_option(name) ? app.get_option_no_throw(name) : nullptr;
    if (option == nullptr) continue;
    const bool is_switch = option->get_expected_max() == 0;
    if (is_switch && name != argument) return refusal(name + " takes no value");
    if (gave_up && !is_switch && &argument == &arguments.back()) return refusal(name + " needs a value");
  }
  return std::nullopt;
}

/// Returns the first argument that `app` does not know.
std::optional<std::string> first_extra(const CLI::App& app) {
  for (const std::string& extra : app.remaining())
    if (extra != "--") return extra;
  return std::nullopt;
}

/// Returns what is wrong with `arguments` after CLI11 has parsed them. `failure`: CLI11's error, if any.
std::optional<fault> find_fault(const CLI::App& program, const std::vector<subcommand>& all, const subcommand* chosen,
                                const std::vector<std::string>& arguments, const CLI::ParseError* failure) {
  if (const auto extra = first_extra(program)) {
    const bool behind_subcommand = chosen != nullptr && !is_option(*extra);
    return behind_subcommand ? unknown_to(*chosen, *extra) : unknown_to_program(all, program, *extra);
  }
  if (chosen != nullptr) {
    if (auto misuse = misused_option(*chosen->app)) return misuse;
    if (auto misplaced = misplaced_value(*chosen->app, arguments, failure != nullptr)) return misplaced;
    if (const auto extra = first_extra(*chosen->app)) return unknown_to(*chosen, *extra);
  }
  if (failure != nullptr) return refusal(failure->what());
  if (chosen == nullptr) return refusal("a subcommand is missing: try 'troupe train', or 'troupe --help' for all");
  return std::nullopt;
}

/// Splits "--name=" into "--name" and an empty value: CLI11 would take the next argument as the value.
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  for (const std::string& argument : arguments) {
    if (argument.size() > 3 && argument.rfind("--", 0) == 0 && argument.find('=') == argument.size() - 1) {
      out.push_back(option_name(argument));
      out.emplace_back();
    } else {
      out.push_back(argument);
    }
  }
  return out;
}

/// Runs a subcommand. Expected errors are values; other exceptions are reported here.
result<int> run_subcommand(const subcommand& chosen, const program_context& context) {
  std::string message;
  try {
    return chosen.run(*chosen.app, context);
  } catch (const std::bad_alloc&) {
    message = "the system has no memory left for this; try smaller tables, batches or layers";
  } catch (const std::exception& failure) {
    message = failure.what();
  }
  return run_fault(std::move(message));
}

/// Prints help or version.
int answer(console& out, const CLI::App& program, const CLI::Success& success) {
  if (dynamic_cast<const CLI::CallForHelp*>(&success) != nullptr) {
    // CLI11 separates groups by two blank lines.
    out.result(CLI::detail::find_and_replace(program.help(), "\n\n\n", "\n\n"));
  } else {
    out.result(std::string(success.what()) + "\n");
  }
  return out.finish(exit_done);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, std::chrono::steady_clock::time_point started) {
  // Read before parsing, so that errors of the command line itself are JSON too.
  console out(contains(arguments, "--json"), contains(arguments, "--quiet"));

  CLI::App program("Trains sparse-dense models as a system of actors.", "troupe");
  program.get_formatter()->column_width(30);
  program.require_subcommand(0, 1);
  program.allow_extras();
  program.set_help_flag("-h,--help", "this help");
  program.set_version_flag("--version", "troupe " TROUPE_VERSION, "the version");
  program.footer("'troupe train' trains on the Adult data set; 'troupe train --help' lists what else there is.");

  const std::vector<subcommand> all = {
      add_train(program),  add_master(program),     add_join(program),  add_status(program), add_stop(program),
      add_parity(program), add_checkpoint(program), add_trace(program), add_bench(program),  add_devices(program)};
  const auto chosen = [&]() -> const subcommand* {
    const auto found = std::ranges::find_if(all, [](const subcommand& one) { return one.app->parsed(); });
    return found == all.end() ? nullptr : &*found;
  };

  std::vector<std::string> reversed = with_empty_values(arguments);
  std::reverse(reversed.begin(), reversed.end());  // the order that CLI11 requires
  std::optional<fault> wrong;
  try {
    program.parse(std::move(reversed));
    wrong = find_fault(program, all, chosen(), arguments, nullptr);
  } catch (const CLI::Success& success) {
    return answer(out, program, success);
  } catch (const CLI::ParseError& failure) {
    wrong = find_fault(program, all, chosen(), arguments, &failure);
  }
  if (wrong) return out.finish(out.error(*wrong));

  const result<int> code = run_subcommand(*chosen(), {out, started});
  return out.finish(code ? *code : out.error(code.error()));
}

}  // namespace troupe::apps
