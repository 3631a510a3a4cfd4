// `troupe checkpoint`: lists, verifies and exports the checkpoints of a folder.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "base/mapped.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cluster/launch/text.hpp"
#include "model/checkpoint/export.hpp"
#include "model/checkpoint/resume.hpp"

namespace troupe::apps {
namespace {

std::uint64_t bytes_of(const model::inspection& seen) {
  std::uint64_t bytes = 0;
  if (!seen.what) return bytes;
  for (const model::saved_file& file : seen.what->manifest.files) bytes += file.length;
  return bytes;
}

std::uint64_t files_of(const model::inspection& seen) { return seen.what ? seen.what->manifest.files.size() : 0; }

std::string json_texts(const std::vector<std::string>& texts) {
  return fmt::format("[{}]", fmt::join(mapped(texts, json_string), ","));
}

/// Inspects every checkpoint of a folder, newest first; a fault if it has none.
result<std::vector<model::inspection>> inspect_all(const std::string& directory, model::inspection_depth depth) {
  TROUPE_TRY(steps, model::checkpoint_steps(directory));
  std::vector<model::inspection> all;
  for (const std::uint64_t step : steps)
    if (auto seen = model::inspect_checkpoint(directory, step, depth)) all.push_back(std::move(*seen));
  if (all.empty()) return tl::unexpected(model::no_checkpoint_in(directory));
  return all;
}

/// Describes the state. A run begins with a checkpoint of step 0 without files, so that the run is known from then on.
const char* state_text(const model::inspection& seen) {
  const bool is_beginning = seen.what && seen.step == 0 && files_of(seen) == 0;
  return is_beginning ? "whole: the run's beginning, of which there is nothing to keep"
                      : model::state_name(seen.found.state);
}

/// Returns a row for each checkpoint, and below it its faults.
std::string table_text(const std::vector<model::inspection>& all) {
  std::string text = fmt::format("{:>12}  {:>5}  {:>17}  state\n", "step", "files", "bytes");
  for (const model::inspection& seen : all) {
    text += fmt::format("{:>12}  {:>5}  {:>17}  {}\n", count_text(seen.step), files_of(seen),
                        count_text(bytes_of(seen)), state_text(seen));
    for (const std::string& wrong : seen.found.faults) text += fmt::format("{:>12}  {}\n", "", one_line(wrong));
  }
  return text;
}

result<int> list(const program_context& context, const std::string& directory) {
  TROUPE_TRY(all, inspect_all(directory, model::inspection_depth::lengths));
  if (!context.out.json()) {
    context.out.result(table_text(all));
    return exit_done;
  }
  for (const model::inspection& seen : all) {
    json_line line("checkpoint");
    line.add("step", seen.step).add("bytes", bytes_of(seen)).add("files", files_of(seen));
    line.add("whole", seen.found.state == model::checkpoint_state::whole);
    line.add_json("faults", json_texts(seen.found.faults));
    context.out.result(line.take());
  }
  return exit_done;
}

result<int> verify(const program_context& context, const std::string& directory) {
  TROUPE_TRY(all, inspect_all(directory, model::inspection_depth::bytes));
  if (!context.out.json()) context.out.result(table_text(all));
  int code = exit_done;
  for (const model::inspection& seen : all) {
    const model::checkpoint_state state = seen.found.state;
    if (context.out.json()) {
      json_line line("verify");
      line.add("step", seen.step).add("ok", state == model::checkpoint_state::whole);
      line.add_json("faults", json_texts(seen.found.faults));
      context.out.result(line.take());
    }
    if (state == model::checkpoint_state::torn) code = exit_failed;
    if (state == model::checkpoint_state::unreadable && code == exit_done) code = exit_wrong_input;
  }
  return code;
}

/// Returns the checkpoint that --step names; a fault unless every byte of it is intact.
result<model::checkpoint> checkpoint_of(const std::string& directory, const std::string& step_text) {
  const auto step = parse_number<std::uint64_t>(step_text);
  if (!step) return bad_input("--step {}: must be a whole number", printable(step_text));
  TROUPE_TRY(steps, model::checkpoint_steps(directory));
  if (steps.empty()) return tl::unexpected(model::no_checkpoint_in(directory));
  auto seen = std::ranges::find(steps, *step) == steps.end()
                  ? std::nullopt
                  : model::inspect_checkpoint(directory, *step, model::inspection_depth::bytes);
  if (!seen) return bad_input("--step {}: {} holds step {}", *step, printable_path(directory), fmt::join(steps, ", "));
  if (seen->found.state == model::checkpoint_state::whole) return std::move(*seen->what);
  return bad_input("checkpoint step {} in {} is {}: {}", *step, printable_path(directory),
                   model::state_name(seen->found.state), seen->found.faults.front());
}

result<model::checkpoint> newest_checkpoint(const std::string& directory) {
  TROUPE_TRY(found, model::newest_whole_checkpoint(directory));
  for (const std::string& warning : found.warnings)
    console::log(fmt::format("troupe: warning: {}\n", one_line(warning)));
  return std::move(found.what);
}

result<int> export_to_file(const CLI::App& app, const program_context& context, const std::string& directory) {
  const auto output = given_text(app, "output");
  if (!output) return bad_input("troupe checkpoint export needs -o FILE, the file to write");
  const auto step = given_text(app, "step");
  TROUPE_TRY(saved, step ? checkpoint_of(directory, *step) : newest_checkpoint(directory));
  model::export_options options;
  options.weights_only = app.count("--weights-only") > 0;
  options.overwrite = app.count("--force") > 0;
  TROUPE_TRY(written, model::export_checkpoint(saved, *output, options));
  if (context.out.json()) {
    json_line line("export");
    line.add("step", saved.manifest.step).add("file", *output).add("bytes", written.length);
    context.out.result(line.take());
  } else {
    context.out.result(fmt::format("step {} as {}: {} bytes\n", count_text(saved.manifest.step), one_line(*output),
                                   count_text(written.length)));
  }
  return exit_done;
}

constexpr std::array<const char*, 4> export_only = {"output", "step", "weights-only", "force"};

result<int> checkpoint_command(const CLI::App& app, const program_context& context) {
  const CLI::Option* action = app.get_option("ACTION");
  const CLI::Option* directory = app.get_option("DIR");
  if (action->count() == 0) return bad_input("troupe checkpoint needs an action: list, verify or export");
  const std::string& what = action->results().front();
  if (what != "list" && what != "verify" && what != "export")
    return bad_input("troupe checkpoint {}: must be list, verify or export; the nearest is {}", printable(what),
                     nearest(what, {"list", "verify", "export"}));
  if (directory->count() == 0)
    return bad_input("troupe checkpoint {} needs DIR, the folder that --save was given", what);
  for (const std::string name : export_only)
    if (what != "export" && app.get_option("--" + name)->count() > 0)
      return bad_input("--{} belongs to troupe checkpoint export, not {}", name, what);
  const std::string& folder = directory->results().front();
  return what == "list"     ? list(context, folder)
         : what == "verify" ? verify(context, folder)
                            : export_to_file(app, context, folder);
}

}  // namespace

subcommand add_checkpoint(CLI::App& program) {
  CLI::App* app = program.add_subcommand("checkpoint", "list, verify or export what a run has saved");
  app->add_option("ACTION")->description(
      "list: which checkpoints there are\n"
      "verify: read every byte of them and report what is wrong\n"
      "export: write one as a plain safetensors file");
  app->add_option("DIR")->description("the folder that --save was given");
  const std::string group = "Export";
  add_text_option(*app, "output", "FILE", "the file to write", group);
  add_text_option(*app, "step", "N", "the checkpoint of this step (default: the newest whole one)", group);
  add_switch(*app, "weights-only", "leave out the optimizer's numbers, and a program's state besides weights", group);
  add_switch(*app, "force", "replace FILE if it is there", group);
  add_switch(*app, "json", "results as JSON objects, one a line", "Output");
  app->footer(
      wrapped("Exit codes: 0 done, and for verify: all checkpoints are whole; 1 verify found a torn one, or FILE could "
              "not be written; 2 DIR, FILE or an option is wrong, or a checkpoint is of another version.",
              100));

  return {app, "an action and one DIR are all it takes", checkpoint_command};
}

}  // namespace troupe::apps
