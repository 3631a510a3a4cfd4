#include "cluster/launch/option_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "base/assert.hpp"
#include "cluster/launch/text.hpp"

namespace troupe::launch {
namespace {

using enum option_place;
using model::setting_type;

// clang-format off
constexpr std::array all_options = {
    option_info{"threads", "N", "as many as cores", "worker threads of the actor system, 1 to 1024",
                option_set::machine, "This machine", file, setting_type::whole},
    option_info{"device", "auto|cpu|cuda", "auto", "what trainers compute on; auto is CUDA devices if there "
                "are any and a step is worth it",
                option_set::machine, "This machine", file},
    option_info{"devices", "N,...", "all", "numbers of the CUDA devices to use: ranks use them in turn",
                option_set::machine, "This machine", file},
    option_info{"server-device", "auto|cpu|cuda", "auto", "where servers keep their tables; auto is where trainers compute",
                option_set::machine, "This machine", file},
    option_info{"prepare", "N", nullptr, "threads of a process that make its trainers' batches ahead, 0 to 1024; unless "
                "given, idle workers do, large batches only",
                option_set::batches, "This machine", file, setting_type::whole},
    option_info{"step-graph", "on|off", "off", "whether each step of one trainer with its tables on the same CUDA device is "
                "one CUDA graph, whose loss is read a step later",
                option_set::graphs, "This machine", file},
    option_info{"processes", nullptr, nullptr, "one process for each role on this machine",
                option_set::processes, "This machine", file, setting_type::truth},
    option_info{"save", "DIR", nullptr, "save a checkpoint at the end, in this folder",
                option_set::checkpoints, "Checkpoints", file},
    option_info{"checkpoint-every", "N", "only at the end", "and every N steps",
                option_set::checkpoints, "Checkpoints", file, setting_type::whole},
    option_info{"checkpoint-seconds", "S|auto", nullptr, "and every S seconds; auto is what Young's formula makes of their "
                "cost and of --mtbf",
                option_set::checkpoints, "Checkpoints", file, setting_type::real},
    option_info{"mtbf", "SECONDS", "a day, divided by the number of hosts", "the mean time between failures, for "
                "--checkpoint-seconds auto",
                option_set::checkpoints, "Checkpoints", file, setting_type::real},
    option_info{"checkpoint-memory", "BYTES", "a quarter of what is available", "what each server may take to keep rows "
                "that change while a checkpoint is written; when it is used up, steps wait",
                option_set::checkpoints, "Checkpoints", file, setting_type::whole},
    option_info{"resume", "DIR", nullptr, "continue the run of the newest checkpoint in this folder; --epochs and --steps "
                "still count from its beginning",
                option_set::checkpoints, "Checkpoints", file},
    option_info{"restarts", "N", "3 with checkpoints every N steps or S seconds, else 0", "attempts without a new "
                "checkpoint that may follow when processes are lost; 0: the run ends",
                option_set::restarts, "Checkpoints", file, setting_type::whole},
    option_info{"rejoin-timeout", "SECONDS", "60", "how long lost members may take to come back; then the "
                "others do their part too",
                option_set::restarts, "Checkpoints", file, setting_type::real},
    option_info{"metrics-csv", "FILE", nullptr, "a line of metrics for each epoch, as CSV",
                option_set::outputs, "Output", file},
    option_info{"tensorboard", "DIR", nullptr, "the same as an event file for TensorBoard",
                option_set::outputs, "Output", file},
    option_info{"trace", "MODE", "ring", "what is recorded: off; ring (the last messages, kept if the run fails); full (all, "
                "compressed, with digests of what they held); payload (that, and what they held)",
                option_set::trace, "Trace", file_or_environment},
    option_info{"trace-dir", "DIR", nullptr, "where; a folder of the run's own among the temporary files unless given",
                option_set::trace, "Trace", file_or_environment},
    option_info{"trace-filter", "ITEMS", nullptr, "record only these: actor=PATTERN,type=PATTERN,steps=A-B,count=N",
                option_set::trace, "Trace", file_or_environment},
    option_info{"trace-payload", "ACTORS", "all", "whose messages --trace payload keeps, as in 'server *,trainer 0'",
                option_set::trace, "Trace", file_or_environment},
    option_info{"trace-ring-mib", "N", "2; 16 with a page, full or payload", "room for the last messages, 1 to 4096",
                option_set::trace, "Trace", file_or_environment, setting_type::whole},
    option_info{"page", "[PORT]", nullptr, "show the run in a browser, on a port of this machine (default port: any that is free)",
                option_set::trace, "Trace", file_or_environment, setting_type::whole},
    option_info{"step-timeout", "SECONDS", nullptr, "how long a step may take before its recording is checked and "
                "the verdict reported; learned from earlier steps unless given",
                option_set::trace, "Trace", file_or_environment},
    option_info{"token-file", "FILE", "the variable TROUPE_TOKEN", "the run's token, which every process has to know",
                option_set::token, "Network"},
    option_info{"tls-cert", "FILE", "by the token", "go by certificates: this process's, in PEM format",
                option_set::certificates, "Network"},
    option_info{"tls-key", "FILE", nullptr, "its key, which only its owner may read",
                option_set::certificates, "Network"},
    option_info{"tls-ca", "FILE", nullptr, "the authority that signs all certificates",
                option_set::certificates, "Network"},
    option_info{"tls-name", "NAME", "HOST", "the name or address in the master's certificate",
                option_set::certificate_name, "Network"},
    option_info{"dead-after", "SECONDS", "5", "how long a process may be silent before it counts as dead",
                option_set::timeouts, "Network"},
    option_info{"request-timeout", "SECONDS", "300", "how long any one message may stay unanswered",
                option_set::timeouts, "Network"},
    option_info{"insecure", nullptr, nullptr, "do without TLS: anyone on the way can read and change everything",
                option_set::insecure, "Network"},
    option_info{"tls", nullptr, nullptr, "with --processes: encrypt their links, which stay on this machine anyway",
                option_set::process_tls, "Network"},
};
// clang-format on

/// `--trace-dir` is TROUPE_TRACE_DIR.
std::string variable_of(std::string_view name) {
  std::string variable = "TROUPE_";
  for (const char c : name) variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

std::string with_default(const std::string& meaning, const std::string& default_text) {
  return default_text.empty() ? meaning : meaning + " (default: " + default_text + ")";
}

}  // namespace

std::span<const option_info> option_table() { return all_options; }

void add_options(CLI::App& app, option_set set, const std::optional<std::string>& default_text,
                 std::span<const given_options> instead) {
  for (option_info one : all_options) {
    if (one.set != set) continue;
    if (const auto other = std::ranges::find(instead, std::string_view(one.name), &given_options::name);
        other != instead.end()) {
      one.default_text = other->default_text;
      one.meaning = other->meaning;
    }
    if (one.value_name == nullptr) {
      add_switch(app, one.name, one.meaning, one.group);
      continue;
    }
    const std::string otherwise = default_text.value_or(one.default_text == nullptr ? "" : one.default_text);
    CLI::Option* added =
        add_text_option(app, one.name, one.value_name, with_default(one.meaning, otherwise), one.group);
    if (std::string_view(one.value_name).starts_with('[')) added->expected(0, 1);
  }
}

void add_job_options(CLI::App& app) {
  for (const model::setting_info& one : model::job_settings())
    add_text_option(app, one.name, one.value_name, with_default(one.meaning, one.default_text), one.group);
}

const std::vector<model::setting_info>& run_settings() {
  static const std::vector<model::setting_info> all = [] {
    std::vector<model::setting_info> made;
    for (const option_info& one : all_options)
      if (one.place != command_line)
        made.push_back({one.name, one.value_name == nullptr ? "" : one.value_name, "", "", one.type, one.group});
    return made;
  }();
  return all;
}

std::optional<std::string> option_text(const std::vector<model::setting>& given, std::string_view name) {
  if (const std::string* found = model::value_of(given, name)) return *found;
  const auto info = std::ranges::find_if(all_options, [&](const option_info& one) { return name == one.name; });
  TROUPE_ASSERT(info != all_options.end());
  if (info->place != file_or_environment) return std::nullopt;
  const char* variable = std::getenv(variable_of(name).c_str());
  return variable != nullptr && *variable != '\0' ? std::optional<std::string>(variable) : std::nullopt;
}

// -- options that are the same in every subcommand -------------------------------------------------------------------

namespace {

/// Returns the columns for an option's meaning in the help.
std::size_t help_columns() {
  constexpr std::size_t name_columns = 30;
  const std::size_t columns = std::clamp<std::size_t>(terminal_columns(STDOUT_FILENO, 100), 60, 120);
  return columns - name_columns;
}

}  // namespace

CLI::Option* add_text_option(CLI::App& app, const std::string& name, const std::string& value_name,
                             const std::string& meaning, const std::string& group) {
  CLI::Option* option = app.add_option(name == "output" ? "-o,--output" : "--" + name);
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

}  // namespace troupe::launch
