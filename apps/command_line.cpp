// The command line: finds the subcommand, and reports syntax errors.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string_view>

#include "apps/added_help.hpp"
#include "apps/subcommand.hpp"
#include "base/exception_text.hpp"
#include "base/mapped.hpp"
#include "base/text.hpp"
#include "cluster/launch/arguments.hpp"

namespace troupe::apps {
namespace {

bool contains(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

fault refusal(std::string message) { return {fault_kind::input, std::move(message)}; }

/// Returns the error for an argument that the subcommand does not know.
fault unknown_to(const subcommand& chosen, const std::string& argument) {
  const std::string path = "troupe " + chosen.app->get_name();
  if (!is_option(argument)) {
    const std::string reason = chosen.no_positional.empty() ? "one FILE is all it takes" : chosen.no_positional;
    return refusal(fmt::format("{}: unexpected argument '{}': {}", path, argument, reason));
  }
  const std::string name = option_name(argument);
  return refusal(fmt::format("{} has no option {}; the nearest is {} (see '{} --help')", path, name,
                             nearest_option(name, *chosen.app), path));
}

/// Returns the error for an argument that is neither a subcommand nor an option of the program itself.
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
  const auto names = mapped(all, [](const subcommand& one) { return one.app->get_name(); });
  return refusal(fmt::format("troupe has no subcommand '{}'; the nearest is '{}' (see 'troupe --help')", argument,
                             nearest(argument, names)));
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

/// Runs a subcommand. Expected errors are values; other exceptions are reported here.
result<int> run_subcommand(const subcommand& chosen, const program_context& context) {
  std::string message;
  try {
    return chosen.run(*chosen.app, context);
  } catch (const std::bad_alloc&) {
    message = "the system has no memory left for this; try smaller tables, batches or layers";
  } catch (const std::exception& failure) {
    message = text_of(failure);
  }
  return run_fault(std::move(message));
}

/// Returns the error for a subcommand that does not exist, even if help or version is requested beside it.
std::optional<fault> unknown_subcommand(const std::vector<subcommand>& all, const CLI::App& program) {
  const std::vector<std::string> extras = program.remaining();
  const auto name = std::ranges::find_if_not(extras, [](const std::string& one) { return one.starts_with('-'); });
  if (name == extras.end()) return std::nullopt;
  return unknown_to_program(all, program, *name);
}

/// Prints help or version.
int answer(console& out, const CLI::App& program, const CLI::Success& success) {
  if (dynamic_cast<const CLI::CallForHelp*>(&success) != nullptr) {
    // CLI11 separates groups by two blank lines.
    out.result(CLI::detail::find_and_replace(program.help(), "\n\n\n", "\n\n"));
  } else {
    out.result(out.json() ? version_event() : version_text());
  }
  return out.finish(exit_done);
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments, std::chrono::steady_clock::time_point started) {
  // Read before parsing, so that errors of the command line itself are also JSON.
  console out(contains(arguments, "--json"), contains(arguments, "--quiet"));

  CLI::App program("Trains sparse-dense models as a system of actors.", "troupe");
  program.get_formatter()->column_width(30);
  program.require_subcommand(0, 1);
  program.allow_extras();
  program.set_help_flag("-h,--help", "this help");
  program.set_version_flag(
      "--version", [] { return version_text(); }, "the version, and those of the libraries");
  program.footer(added_help() +
                 "'troupe train' trains on the Adult data set; 'troupe train --help' lists what else there is.");

  const std::vector<subcommand> all = {add_train(program),  add_master(program),     add_join(program),
                                       add_status(program), add_stop(program),       add_scale(program),
                                       add_parity(program), add_checkpoint(program), add_trace(program),
                                       add_bench(program),  add_devices(program)};
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
    wrong = chosen() == nullptr ? unknown_subcommand(all, program) : std::nullopt;
    if (!wrong) return answer(out, program, success);
  } catch (const CLI::ParseError& failure) {
    wrong = find_fault(program, all, chosen(), arguments, &failure);
  }
  if (wrong) return out.finish(out.error(*wrong));

  const result<int> code = run_subcommand(*chosen(), {out, started});
  return out.finish(code ? *code : out.error(code.error()));
}

}  // namespace troupe::apps
