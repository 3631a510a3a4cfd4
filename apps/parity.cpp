// `troupe parity`: trains from a reference run's weights on its batches, and compares losses and final weights; if the
// network is given as layers, also its buffers, and its outputs in evaluation mode.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "base/result.hpp"
#include "base/stop_request.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/processes.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/nodes/run_job.hpp"
#include "kernels/device.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "model/replay.hpp"

namespace troupe::apps {
namespace {

constexpr double error_max = 1e-4;

/// The largest error of many comparisons, and its location.
class worst_error {
 public:
  /// Compares `ours` with `reference`; `place` makes the location's text only if it is needed.
  template <class Place>
  void compare(double ours, double reference, Place place) {
    const double error = std::fabs(ours - reference) / std::max(1.0, std::fabs(reference));
    // NaN counts as the largest error.
    if (std::isnan(value_) || error <= value_) return;
    value_ = error;
    where_ = place();
  }

  double value() const { return value_; }
  const std::string& where() const { return where_; }
  bool ok() const { return value_ <= error_max; }

 private:
  double value_ = 0;
  std::string where_;
};

struct comparison {
  worst_error loss;
  worst_error weight;
  std::optional<worst_error> eval;  ///< runs with layers: the outputs in evaluation mode
  bool ok() const { return loss.ok() && weight.ok() && (!eval || eval->ok()); }
};

/// Records that run and reference differ in shape.
tl::unexpected<fault> different_shape(std::string_view what, std::size_t ours, std::size_t reference) {
  return tl::unexpected<fault>(
      fault{fault_kind::run, fmt::format("the run has {} {}, the reference run {}", ours, what, reference)});
}

/// The losses of a run by rank and step, collected over its epochs.
using loss_table = std::vector<std::vector<double>>;

void append_losses(loss_table& to, const loss_table& epoch) {
  to.resize(std::max(to.size(), epoch.size()));
  for (std::size_t rank = 0; rank < epoch.size(); ++rank)
    to[rank].insert(to[rank].end(), epoch[rank].begin(), epoch[rank].end());
}

result<worst_error> compare_losses(const loss_table& ours, const loss_table& reference) {
  worst_error worst;
  if (ours.size() != reference.size()) return different_shape("trainers", ours.size(), reference.size());
  for (std::size_t rank = 0; rank < reference.size(); ++rank) {
    if (ours[rank].size() != reference[rank].size())
      return different_shape("steps", ours[rank].size(), reference[rank].size());
    for (std::size_t step = 0; step < reference[rank].size(); ++step)
      worst.compare(ours[rank][step], reference[rank][step],
                    [&] { return fmt::format("trainer {}, step {}", rank, step + 1); });
  }
  return worst;
}

/// Moves the network's buffers, which follow the dense weights in a run's result, to `buffers`.
model::initial_weights with_buffers(model::initial_weights of, std::size_t dense) {
  if (of.dense.size() <= dense) return of;
  const auto first = of.dense.begin() + static_cast<std::ptrdiff_t>(dense);
  of.buffers.assign(first, of.dense.end());
  of.dense.erase(first, of.dense.end());
  return of;
}

result<worst_error> compare_weights(const model::initial_weights& ours, const model::reference_run& reference) {
  worst_error worst;
  if (ours.tables.size() != reference.tables.size())
    return different_shape("tables", ours.tables.size(), reference.tables.size());
  for (std::size_t table = 0; table < reference.tables.size(); ++table) {
    const auto& mine = ours.tables[table];
    const auto& theirs = reference.tables[table];
    if (mine.size() != theirs.size()) return different_shape("weights in a table", mine.size(), theirs.size());
    for (std::size_t at = 0; at < theirs.size(); ++at)
      worst.compare(mine[at], theirs[at], [&] { return fmt::format("table {}, weight {}", table, at); });
  }
  if (ours.dense.size() != reference.dense.size())
    return different_shape("dense weights", ours.dense.size(), reference.dense.size());
  for (std::size_t at = 0; at < reference.dense.size(); ++at)
    worst.compare(ours.dense[at], reference.dense[at], [&] { return fmt::format("dense weight {}", at); });
  if (ours.buffers.size() != reference.buffers.size())
    return different_shape("running statistics", ours.buffers.size(), reference.buffers.size());
  for (std::size_t at = 0; at < reference.buffers.size(); ++at)
    worst.compare(ours.buffers[at], reference.buffers[at], [&] { return fmt::format("running statistic {}", at); });
  return worst;
}

/// Compares the outputs of the run's network for the reference run's samples, in evaluation mode, on the processor.
/// Requires: `compare_weights` returned no fault.
worst_error compare_outputs(const model::initial_weights& ours, const model::reference_run& reference,
                            const model::job& what) {
  const model::hybrid_model network(reference.spec, what);
  const auto parameters = nn::placed(network.parameters());
  const auto buffers = nn::placed(network.buffers());
  const troupe::shape in(reference.eval_input.size() / network.in_features(), network.in_features());
  const troupe::shape out = network.output(in);
  std::vector<float> statistics = ours.buffers;
  std::vector<float> outputs(out.count());
  std::vector<float> saved(network.saved(in, kernels::host_stream()));
  network.forward({.stream = kernels::host_stream()}, {.parameters = {ours.dense.data(), parameters},
                                                       .buffers = {statistics.data(), buffers},
                                                       .input = {in, reference.eval_input.data()},
                                                       .output = {outputs.data(), out},
                                                       .saved = saved});
  worst_error worst;
  for (std::size_t at = 0; at < reference.eval_output.size(); ++at)
    worst.compare(outputs[at], reference.eval_output[at],
                  [&] { return fmt::format("sample {}, output {}", at / out[1], at % out[1]); });
  return worst;
}

/// Runs the job of a reference run and compares the results.
result<comparison> replay_run(const model::reference_run& reference, const model::job& what,
                              const machine_options& machine, bool processes) {
  loss_table losses;
  nodes::run_options options;
  options.threads = machine.threads;
  options.devices = machine.devices;
  options.return_weights = true;
  options.observer.on_epoch = [&](const actors::epoch_summary& epoch) { append_losses(losses, epoch.losses); };
  role_processes children;
  if (processes) {
    TROUPE_SET(options.gather, gather_children(children, {.command = {"troupe", "train"},
                                                          .servers = what.servers,
                                                          .trainers = what.ranks(),
                                                          .machine = machine,
                                                          .resume = "start anew"}));
  }
  auto run = nodes::run_job(what, options, &stop_on_signals());
  children.finish(exit_timeout);
  if (!run) return tl::unexpected<fault>(std::move(run.error()));
  if (run->stopped || !run->weights) return run_fault("the run was stopped before there was anything to compare");
  TROUPE_TRY(loss, compare_losses(losses, reference.losses));
  const model::initial_weights ours = with_buffers(std::move(*run->weights), reference.dense.size());
  TROUPE_TRY(weight, compare_weights(ours, reference));
  comparison found{std::move(loss), std::move(weight), {}};
  if (!what.layers.empty()) found.eval = compare_outputs(ours, reference, what);
  return found;
}

std::string parity_text(const comparison& found) {
  const auto line = [](const char* name, const worst_error& error) {
    const std::string where = error.where().empty() ? "" : " (" + error.where() + ")";
    return fmt::format("{:<13} {:.3g}{}\n", name, error.value(), where);
  };
  return line("loss error", found.loss) + line("weight error", found.weight) +
         (found.eval ? line("eval error", *found.eval) : "") +
         fmt::format("{:<13} {} {:g}\n", found.ok() ? "ok" : "not ok", found.ok() ? "within" : "beyond", error_max);
}

/// Settings that change the number of actors of a reference run, but not its training.
constexpr std::array splitting{"servers", "table-split", "pipeline", "schedule", "stages", "tensor-parallel"};

result<int> parity(const CLI::App& app, const program_context& context) {
  const stop_scope heeds(stop_on_signals(context.out));
  auto machine = read_machine_options([&app](const char* name) { return given_text(app, name); });
  if (!machine) return tl::unexpected<fault>(machine.error());
  const CLI::Option* file = app.get_option("FILE");
  if (file->count() == 0) return bad_input("troupe parity needs the FILE of a reference run");
  TROUPE_TRY(reference, model::open_reference_run(file->results().front()));
  std::vector<model::setting> settings = reference.settings;
  for (const char* name : splitting)
    if (auto text = given_text(app, name)) settings.emplace_back(name, std::move(*text));
  TROUPE_TRY(what, model::parse_job(settings));

  if (app.get_option("--processes")->count() > 0) TROUPE_DO(give_to_processes(*machine, what.ranks(), context.out));
  if (const std::string on = actors::describe(machine->devices, what.ranks(), what.servers); !on.empty())
    context.out.note(on);
  TROUPE_TRY(found, replay_run(reference, what, *machine, app.get_option("--processes")->count() > 0));
  if (context.out.json()) {
    json_line line("parity");
    line.add("max_loss_error", found.loss.value()).add("max_weight_error", found.weight.value());
    if (found.eval) line.add("max_eval_error", found.eval->value());
    line.add("ok", found.ok());
    context.out.result(line.take());
  } else {
    context.out.result(parity_text(found));
  }
  if (!found.ok() && what.streams())
    context.out.note("with --schedule pipedream the weights are those of a reference run of the same stages, only");
  return found.ok() ? exit_done : exit_failed;
}

}  // namespace

subcommand add_parity(CLI::App& program) {
  CLI::App* app = program.add_subcommand("parity", "check training against a reference run");
  app->add_option("FILE")->description("the reference run, a safetensors file");
  add_text_option(*app, "servers", "N", "parameter servers (default: 1)", "Job");
  add_text_option(*app, "table-split", "WAY", "how servers share a table, by rows or columns (default: rows)", "Job");
  add_text_option(*app, "pipeline", "P", "stages of each trainer's network (default: 1)", "Job");
  add_text_option(*app, "schedule", "NAME", "with --pipeline: gpipe, 1f1b or pipedream (default: 1f1b)", "Job");
  add_text_option(*app, "stages", "LAYERS", "with --pipeline: the layer at which each stage begins", "Job");
  add_text_option(*app, "tensor-parallel", "T", "slices of each stage (default: 1)", "Job");
  add_options(*app, option_set::machine);
  add_options(*app, option_set::processes);
  add_switch(*app, "json", "the result as a JSON object on one line", "Output");
  app->footer(
      "Exit codes: 0 all errors |a-b| / max(1, |b|) are within 1e-4; 1 they are not; 2 FILE or an option is wrong.");

  return {app, "", parity};
}

}  // namespace troupe::apps
