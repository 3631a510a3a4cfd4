#include "launch/restarts.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "launch/option_table.hpp"
#include "launch/supervisor.hpp"
#include "links/connect.hpp"

namespace troupe::launch {

namespace {

constexpr std::uint64_t restarts_by_default = 3;
constexpr const char* port_name = "port";

/// Restarts are the default where little is lost by an attempt.
result<std::uint64_t> read_restarts(const std::vector<model::setting>& given) {
  constexpr std::uint64_t restarts_max = 1'000'000;
  const auto text = option_text(given, "restarts");
  if (!text)
    return option_text(given, "checkpoint-every") || option_text(given, "checkpoint-seconds") ? restarts_by_default : 0;
  const auto number = parse_number<std::uint64_t>(*text);
  if (!number || *number > restarts_max)
    return bad_input("--restarts {}: must be a whole number between 0 and {}", printable(*text), restarts_max);
  return *number;
}

}  // namespace

result<void> supervise_if_wanted(const std::vector<model::setting>& given, console& out) {
  if (attempt::is_supervised()) return {};
  TROUPE_TRY(restarts, read_restarts(given));
  return restarts == 0 ? result<void>() : supervise(restarts, out);
}

result<std::chrono::milliseconds> read_rejoin_timeout(const std::vector<model::setting>& given) {
  constexpr double seconds_max = 86'400;
  const auto text = option_text(given, "rejoin-timeout");
  if (!text) return nodes::gather_options().rejoin_timeout;
  const auto seconds = parse_number<double>(*text);
  if (!seconds || !(*seconds >= 0 && *seconds <= seconds_max))
    return bad_input("--rejoin-timeout {}: must be a number of seconds between 0 and {:g}", printable(*text),
                     seconds_max);
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

result<void> fit_to_attempt(nodes::gather_options& gather) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return {};
  if (const int kept = mine->kept(port_name); kept >= 0) {
    gather.socket = std::make_shared<const descriptor>(descriptor::adopt(kept));
  } else {
    auto made = links::listening_socket(gather.listen);
    if (!made) return bad_input(std::move(made.error().message));
    mine->keep(port_name, made->number());
    gather.socket = std::make_shared<const descriptor>(std::move(*made));
  }
  mine->resume_by(std::exchange(gather.resume, {}));
  gather.again = [mine] { return mine->may_fail(); };
  gather.attempt = mine->before().number;
  gather.lost = mine->before().lost;
  return {};
}

void report_to_supervisor(actors::run_observer& observer, std::function<void(const attempt_news&)> on_attempt) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return;
  observer.on_begin = [mine, on_attempt = std::move(on_attempt)](std::uint64_t step) {
    const attempt_history& before = mine->before();
    const std::uint64_t lost_steps = mine->begun(step);
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - before.lost_at;
    if (before.number > 1) on_attempt({before.number, before.lost, step, lost_steps, since.count()});
  };
  observer.on_progress = [mine, then = observer.on_progress](const actors::run_progress& now) {
    mine->reached(now.step);
    if (then) then(now);
  };
  observer.on_checkpoint = [mine, then = observer.on_checkpoint](const actors::checkpoint_summary& now) {
    if (!now.problem) mine->saved(now.step);
    if (then) then(now);
  };
}

std::string words_of(const attempt_news& news) {
  return fmt::format("attempt {} goes on from step {} after {:.2g} s, {} step{} lost: {}", news.number, news.from_step,
                     news.seconds, news.lost_steps, news.lost_steps == 1 ? "" : "s", news.lost);
}

std::string event_of(const attempt_news& news) {
  return json_line("attempt")
      .add("attempt", news.number)
      .add("from_step", news.from_step)
      .add("lost_steps", news.lost_steps)
      .add("seconds", news.seconds)
      .add("lost", news.lost)
      .take();
}

supervision_end end_supervision(bool done) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return {};
  supervision_end end;
  end.roles = mine->finish_roles(done);
  end.attempts = mine->before().number;
  end.steps_redone = mine->redone();
  return end;
}

bool fails_attempt(const fault& why) {
  attempt* mine = attempt::mine();
  if (mine == nullptr || (why.kind != fault_kind::lost && why.kind != fault_kind::device)) return false;
  mine->failed(why.message);
  return true;
}

}  // namespace troupe::launch
