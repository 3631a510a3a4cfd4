// `troupe trace tail`.

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <chrono>
#include <span>
#include <thread>

#include "apps/trace_answers.hpp"
#include "base/lossless_json.hpp"
#include "base/text.hpp"
#include "cluster/launch/signals.hpp"
#include "trace/analysis/tail.hpp"
#include "trace/record/follower.hpp"

namespace troupe::apps {
namespace {

constexpr std::chrono::milliseconds look_interval{200};

/// Returns the lines of the terminal; 0 if stdout is not one.
std::size_t screen_lines() {
  winsize size{};
  if (!console::to_terminal() || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_row;
}

class printer {
 public:
  printer(console& out, std::uint64_t count) : out_(out), left_(count) {}

  /// Prints events; returns false after the filter's count, or if stdout is closed.
  bool print(const trace::recording& run, std::span<const analysis::tail_event> events) {
    std::string text;
    for (const analysis::tail_event& one : events) {
      if (left_ == 0) break;
      --left_;
      if (out_.json()) {
        boost::json::object line = {{"event", "tail"}};
        for (const auto& field : analysis::tail_json(run, one)) line.insert(field);
        text += json_text(line) + "\n";
      } else {
        begin_screen(text);
        text += one_line(analysis::tail_line(run, one)) + "\n";
      }
    }
    if (!text.empty()) out_.result(text);
    return left_ > 0 && !out_.output_lost();
  }

 private:
  /// Prints the columns' names, once or at the top of each screen.
  void begin_screen(std::string& text) {
    const std::size_t screen = screen_lines();
    if (lines_ == 0 || (screen > 2 && lines_ % (screen - 1) == 0)) {
      text += analysis::tail_header() + "\n";
      ++lines_;
    }
    ++lines_;
  }

  console& out_;
  std::uint64_t left_;
  std::size_t lines_ = 0;
};

}  // namespace

result<int> tail(const question& asked) {
  TROUPE_TRY(from, sources_of(asked, asked.arguments));
  TROUPE_TRY(lines, read_number(asked, "lines", 0));
  constexpr std::uint64_t usual_lines = 20;
  trace::filter wanted;
  if (const auto text = given_text(asked.app, "filter")) {
    auto parsed = trace::parse_filter(*text);
    if (!parsed) return bad_input("--filter: {}", one_line(parsed.error().message));
    wanted = std::move(*parsed);
  }
  const bool follows = asked.app.count("--no-follow") == 0;
  auto all = trace::follower::open(from);
  if (!all) return bad_input(one_line(all.error().message));
  const stop_request& stop = stop_on_signals();
  printer to(asked.out, wanted.count);
  std::uint64_t lost = 0;
  std::uint64_t run = 0;
  for (bool is_first = true;; is_first = false) {
    const bool was_live = is_first || all->is_live();
    const auto taken = all->take();
    if (!taken) return bad_input(one_line(taken.error().message));
    if (is_first) report_attempt(asked, from, *taken);
    if (run != 0 && taken->run != 0 && taken->run != run)
      asked.out.note("the next attempt at this run has begun: what follows is of it");
    if (taken->run != 0) run = taken->run;
    const std::vector<analysis::tail_event> events = analysis::tail_events(*taken, wanted);
    const std::size_t shown = is_first ? std::min(events.size(), lines.value_or(usual_lines)) : events.size();
    if (all->lost() > lost)
      asked.out.warning(fmt::format("{} records were overwritten before they could be shown", all->lost() - lost));
    lost = all->lost();
    if (!to.print(*taken, std::span(events).last(shown))) break;
    // One more reading after the last process has ended gets its last records.
    if (!follows || stop.requested() || !was_live || (is_first && !all->is_live())) break;
    std::this_thread::sleep_for(look_interval);
  }
  return exit_done;
}

}  // namespace troupe::apps
