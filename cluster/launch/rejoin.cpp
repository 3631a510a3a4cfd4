#include "cluster/launch/rejoin.hpp"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

#include "cluster/launch/signals.hpp"
#include "cluster/launch/stop_deadline.hpp"
#include "cluster/nodes/thread_memory.hpp"
#include "model/data.hpp"

namespace troupe::launch {

namespace {

using rejoin_clock = std::chrono::steady_clock;

/// Takes part in one attempt, and records it.
result<nodes::node_end> take_part_once(nodes::node_options& options, trace_order recording, bool quietly,
                                       console& out) {
  TROUPE_TRY(traced, run_trace::start(recording, out));
  if (!quietly) traced.report_if_crashed(out);
  options.recorder = traced.recorder();
  options.watch.step_timeout = recording.step_timeout;
  options.watch.wanted = diagnosis_wanted;
  nodes::node_end ended = nodes::run_node(options, &stop_on_signals());
  const bool clean = ended.how.has_value() || ended.as_wished || traced.note_failure(ended.how.error(), false);
  quietly ? traced.finish_quietly(clean) : traced.finish(clean, out);
  return ended;
}

}  // namespace

result<void> take_part(nodes::node_options options, const trace_order& recording, bool quietly, console& out) {
  if (auto enough = nodes::check_threads(options.threads); !enough) return enough;
  if (auto enough = nodes::check_descriptors(2); !enough) return enough;
  options.on_overdue = [&out](const std::string& line) { out.error({fault_kind::run, line}); };
  const model::dataset_holder files;
  quietly ? stop_on_signals() : stop_on_signals(out);
  std::optional<stop_deadline> overdue;
  if (!quietly) overdue.emplace(out, stopping_part::member);
  rejoin_clock::time_point give_up = {};
  for (;;) {
    TROUPE_TRY(ended, take_part_once(options, recording, quietly, out));
    if (ended.how) return {};
    const auto now = rejoin_clock::now();
    if (ended.rejoin_within.count() > 0)
      give_up = now + ended.rejoin_within + 2 * options.network.dead_after;  // the master has to notice, and to begin
    else if (now >= give_up || ended.how.error().kind != fault_kind::unreachable)
      return std::move(ended.how);
    if (stop_on_signals().requested()) return {};
    options.join_timeout = std::chrono::duration_cast<std::chrono::milliseconds>(give_up - now);
    if (!quietly && ended.rejoin_within.count() > 0)
      out.note(fmt::format("{}; coming back to the master, for up to {} s", ended.how.error().message,
                           static_cast<double>(ended.rejoin_within.count()) / 1000));
  }
}

}  // namespace troupe::launch
