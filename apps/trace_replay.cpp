// `troupe trace replay`.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

#include "apps/report.hpp"
#include "apps/trace_answers.hpp"
#include "base/mapped.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/nodes/run_job.hpp"
#include "trace/analysis/message_id.hpp"
#include "trace/replay/actor_replay.hpp"
#include "trace/replay/outcome.hpp"
#include "trace/replay/replay_order.hpp"

/// A breakpoint for debuggers: the actor is about to handle message `id`, described by `text`.
extern "C" __attribute__((noinline, used)) void troupe_before_message(std::uint64_t id, const char* text) {
  asm volatile("" : : "r"(id), "r"(text) : "memory");
}

namespace troupe::apps {

namespace {

/// Repeats `actor` alone on the calling thread.
result<int> replay_one(const trace::recording& recorded, const std::string& actor, console& out) {
  const auto number = analysis::find_actor(recorded, actor);
  if (!number) return bad_input("--actor: {}", one_line(number.error().message));
  const auto done = replay::replay_actor(
      recorded, *number, [](std::uint64_t id, const std::string& text) { troupe_before_message(id, text.c_str()); });
  if (!done) return bad_input(one_line(done.error().message));
  const std::string name = recorded.actor_name(*number);
  const bool same = done->difference.empty() && done->handled == done->recorded;
  if (out.json()) {
    json_line line("done");
    line.add("actor", name).add("same", same).add("messages", done->handled).add("recorded", done->recorded);
    line.add("sent", done->sent).add("compared", done->compared);
    done->difference.empty() ? line.add_json("difference", "null") : line.add("difference", one_line(done->difference));
    done->end.empty() ? line.add_json("error", "null") : line.add("error", one_line(done->end));
    out.result(line.take());
  } else {
    std::string text;
    if (!done->difference.empty()) text += one_line(done->difference) + "\n";
    if (!done->end.empty()) text += fmt::format("it ended: {}\n", one_line(done->end));
    text += fmt::format("{} handled {} of {}, and sent {}: {} could be compared{}\n", name,
                        replay::messages(done->handled), count_text(done->recorded), count_text(done->sent),
                        count_text(done->compared), same ? " and hold what was recorded" : "");
    out.result(text);
  }
  return same ? exit_done : exit_failed;
}

/// Replaces this program by a debugger that runs it with the same arguments without --debug, and stops before each
/// message of the actor. Returns only on failure, with kind input.
tl::unexpected<fault> start_debugger() {
  std::vector<std::string> command = {
      "gdb", "-q", "-ex", "set breakpoint pending on", "-ex", "break troupe_before_message", "-ex", "run", "--args"};
  // Commands that the debugger starts must not inherit the variable.
  std::ifstream given("/proc/self/cmdline", std::ios::binary);
  if (!given) return bad_input("--debug: /proc/self/cmdline, which has this program's arguments, cannot be read");
  for (std::string word; std::getline(given, word, '\0');)
    if (word != "--debug") command.push_back(word);
  auto arguments = mapped(command, [](std::string& word) { return word.data(); });
  arguments.push_back(nullptr);
  ::execvp("gdb", arguments.data());
  return bad_input("--debug: gdb cannot be started: {}", std::strerror(errno));
}

/// Repeats the whole run.
result<int> replay_run(const trace::recording& recorded, const std::string& folder, console& out) {
  const auto order = replay::read_replay_order(recorded);
  if (!order) return bad_input(one_line(order.error().message));
  if (!order->program.empty())
    return bad_input("the run was one of the program {}: repeat it by '{} --replay {}'", order->program, order->program,
                     printable_path(folder));
  const auto what = model::parse_job(order->settings);
  if (!what) return bad_input("the recorded job: {}", what.error().message);
  TROUPE_TRY(data, model::open_dataset(*what));
  if (!order->data_digest.empty() && data->digest() != order->data_digest)
    return bad_input("--data {}: the rows are not those of the recorded run: their digest is {} here and {} there",
                     what->data, data->digest(), order->data_digest);
  replay::replay again(*order, recorded);
  auto devices = actors::choose_devices(order->devices);
  if (!devices)
    return bad_input("the run was on CUDA devices, whose bits come again only there: {}", devices.error().message);
  nodes::run_options options;
  options.devices = std::move(*devices);
  options.replayed = &again;
  const stop_request& stop = stop_on_signals();
  auto run = [&] {
    const replay::stall_watch watch(again);
    return nodes::run_job(*what, options, &stop);
  }();
  // A replay that stops at the end of the recording ends the run with an error.
  const bool ended_here = !again.difference().empty() || (again.is_complete() && !order->is_whole);
  if (!run && !ended_here) return tl::unexpected<fault>(std::move(run.error()));
  const std::string digest = run ? run->weights_digest : "";
  const bool same = replay::is_same(again, *order, digest);
  if (out.json()) {
    json_line line = done_event({run ? std::move(*run) : actors::run_summary{}, 0, peak_rss_mib()}, *what);
    line.add("same", same).add("messages", again.handled()).add("compared", again.compared());
    line.add("recorded", again.expected());
    order->is_whole ? line.add("recorded_digest", order->weights_digest) : line.add_json("recorded_digest", "null");
    const std::string difference = again.difference();
    difference.empty() ? line.add_json("difference", "null") : line.add("difference", one_line(difference));
    out.result(line.take());
  } else {
    out.result(replay::description_of(again, *order, digest));
  }
  return same ? exit_done : exit_failed;
}

}  // namespace

result<int> replay(const question& asked) {
  const auto actor = given_text(asked.app, "actor");
  const bool debug = asked.app.count("--debug") > 0;
  if (debug && !actor) return bad_input("--debug: goes with --actor, which is run alone then");
  TROUPE_TRY(run, read_for_verdict(asked, asked.arguments));
  if (debug) return start_debugger();
  return actor ? replay_one(run, *actor, asked.out) : replay_run(run, asked.arguments.back(), asked.out);
}

}  // namespace troupe::apps
