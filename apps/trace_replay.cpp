// `troupe trace replay`.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "analysis/message_id.hpp"
#include "apps/report.hpp"
#include "apps/trace_answers.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "launch/signals.hpp"
#include "nodes/run_job.hpp"
#include "replay/actor_replay.hpp"
#include "replay/replay.hpp"
#include "replay/replay_order.hpp"

/// A breakpoint for debuggers: the actor is about to handle message `id`, described by `words`.
extern "C" __attribute__((noinline, used)) void troupe_before_message(std::uint64_t id, const char* words) {
  asm volatile("" : : "r"(id), "r"(words) : "memory");
}

namespace troupe::apps {

namespace {

/// While it exists, a replay that reaches no further message is stopped.
class stall_watch {
 public:
  explicit stall_watch(replay::replay& of)
      : thread_([&of, this](const std::stop_token& over) {
          constexpr std::chrono::seconds timeout{60};
          auto last_handled = of.handled();
          std::unique_lock lock(mutex_);
          while (!wake_.wait_for(lock, over, timeout, [&over] { return over.stop_requested(); })) {
            const auto handled = of.handled();
            if (of.has_begun() && handled == last_handled && !of.is_complete()) of.give_up();
            last_handled = handled;
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

std::string messages(std::uint64_t count) {
  return fmt::format("{} message{}", count_text(count), count == 1 ? "" : "s");
}

/// Returns the outcome as text.
std::string words_of(const replay::replay& again, const replay::replay_order& order, const std::string& digest) {
  if (const std::string difference = again.difference(); !difference.empty())
    return fmt::format("{}\n{} before it came as recorded\n", difference, messages(again.handled()));
  if (!again.is_complete())
    return fmt::format("stopped after {} of {} that are recorded\n", messages(again.handled()),
                       count_text(again.expected()));
  std::string text = fmt::format("{} of training came as recorded{}\n", messages(again.handled()),
                                 order.is_whole ? "" : ", and no more are");
  if (again.compared() == 0)
    text += "what they held was not recorded (that takes --trace full), so only their order is known to be the same\n";
  else if (again.compared() < again.handled())
    text += fmt::format("of {} it is not recorded what they held\n", messages(again.handled() - again.compared()));
  if (order.is_whole && digest == order.weights_digest)
    text += fmt::format("weights digest  {}, as recorded\n", digest);
  else if (order.is_whole)
    text += fmt::format("weights digest  {}, recorded is {}\n", digest, order.weights_digest);
  return text;
}

/// Repeats `actor` alone on the calling thread.
result<int> replay_one(const trace::recording& recorded, const std::string& actor, console& out) {
  const auto number = analysis::find_actor(recorded, actor);
  if (!number) return bad_input("--actor: {}", one_line(number.error().message));
  const auto done = replay::replay_actor(
      recorded, *number, [](std::uint64_t id, const std::string& words) { troupe_before_message(id, words.c_str()); });
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
    text += fmt::format("{} handled {} of {}, and sent {}: {} could be compared{}\n", name, messages(done->handled),
                        count_text(done->recorded), count_text(done->sent), count_text(done->compared),
                        same ? " and hold what was recorded" : "");
    out.result(text);
  }
  return same ? exit_done : exit_failed;
}

/// Replaces this program by a debugger that runs it with the same arguments without --debug, and stops before each
/// message of the actor. Returns only on failure, with kind input.
tl::unexpected<fault> start_debugger() {
  std::vector<std::string> words = {
      "gdb", "-q", "-ex", "set breakpoint pending on", "-ex", "break troupe_before_message", "-ex", "run", "--args"};
  // Commands that the debugger starts must not inherit the variable.
  std::ifstream given("/proc/self/cmdline", std::ios::binary);
  for (std::string word; std::getline(given, word, '\0');)
    if (word != "--debug") words.push_back(word);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp("gdb", arguments.data());
  return bad_input("--debug: gdb cannot be started: {}", std::strerror(errno));
}

/// Repeats the whole run.
result<int> replay_run(const trace::recording& recorded, console& out) {
  const auto order = replay::read_replay_order(recorded);
  if (!order) return bad_input(one_line(order.error().message));
  TROUPE_TRY(data, model::open_dataset(order->what));
  if (!order->data_digest.empty() && data->digest() != order->data_digest)
    return bad_input("--data {}: the rows are not those of the recorded run: their digest is {} here and {} there",
                     order->what.data, data->digest(), order->data_digest);
  replay::replay again(*order, recorded);
  auto devices = actors::choose_devices(order->devices);
  if (!devices)
    return bad_input("the run was on CUDA devices, whose bits come again only there: {}", devices.error().message);
  nodes::run_options options;
  options.devices = std::move(*devices);
  options.replayed = &again;
  const nodes::stop_request& stop = stop_on_signals();
  auto run = [&] {
    const stall_watch watch(again);
    return nodes::run_job(order->what, options, &stop);
  }();
  // A replay that stops at the end of the recording ends the run with an error.
  const bool ended_here = !again.difference().empty() || (again.is_complete() && !order->is_whole);
  if (!run && !ended_here) return tl::unexpected<fault>(std::move(run.error()));
  const std::string digest = run ? run->weights_digest : "";
  const bool same =
      again.difference().empty() && again.is_complete() && (!order->is_whole || digest == order->weights_digest);
  if (out.json()) {
    json_line line = done_event({run ? std::move(*run) : actors::run_summary{}, 0, peak_rss_mib()}, order->what);
    line.add("same", same).add("messages", again.handled()).add("compared", again.compared());
    line.add("recorded", again.expected());
    order->is_whole ? line.add("recorded_digest", order->weights_digest) : line.add_json("recorded_digest", "null");
    const std::string difference = again.difference();
    difference.empty() ? line.add_json("difference", "null") : line.add("difference", one_line(difference));
    out.result(line.take());
  } else {
    out.result(words_of(again, *order, digest));
  }
  return same ? exit_done : exit_failed;
}

}  // namespace

result<int> replay(const question& asked) {
  const auto actor = given_text(asked.app, "actor");
  const bool debug = asked.app.count("--debug") > 0;
  if (debug && !actor) return bad_input("--debug: goes with --actor, which is run alone then");
  TROUPE_TRY(run, read_recording(asked, asked.words));
  if (debug) return start_debugger();
  return actor ? replay_one(run, *actor, asked.out) : replay_run(run, asked.out);
}

}  // namespace troupe::apps
