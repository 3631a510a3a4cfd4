#include "cluster/launch/restarts.hpp"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/supervisor.hpp"
#include "cluster/launch/trace_options.hpp"
#include "cluster/links/connect.hpp"

namespace troupe::launch {

namespace {

constexpr std::uint64_t restarts_by_default = 3;

/// By default, a run restarts if an attempt loses little, or if trainers join and leave by attempts.
result<std::uint64_t> read_restarts(const std::vector<model::setting>& given) {
  constexpr std::uint64_t restarts_max = 1'000'000;
  const auto text = option_text(given, "restarts");
  const auto has = [&](const char* name) { return model::value_of(given, name) != nullptr; };
  const bool wants = has("elastic") || has("supervised") || has("checkpoint-every") || has("checkpoint-seconds");
  if (!text) return wants ? restarts_by_default : 0;
  const auto number = parse_number<std::uint64_t>(*text);
  if (!number || *number > restarts_max)
    return bad_input("--restarts {}: must be a whole number between 0 and {}", printable(*text), restarts_max);
  if (*number == 0 && has("supervised"))
    return bad_input("--restarts 0: --supervised lets a run continue after losses; leave one of them out");
  return *number;
}

std::string port_name(std::size_t number) { return fmt::format("port {}", number); }

/// Returns the sockets that an earlier attempt has passed on.
listening_sockets kept_sockets(const attempt& mine) {
  listening_sockets all;
  for (int kept = mine.kept(port_name(0)); kept >= 0; kept = mine.kept(port_name(all.sockets.size()))) {
    all.sockets.push_back(descriptor::adopt(kept));
    all.addresses.push_back(address_of(all.sockets.back()));
  }
  return all;
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
  TROUPE_TRY(restarts, read_restarts(given));
  if (restarts == 0)
    return bad_input("--rejoin-timeout {}: this run ends with its first loss; add --restarts N, or leave it out",
                     printable(*text));
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

result<void> fit_to_attempt(nodes::gather_options& gather) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return {};
  listening_sockets at = kept_sockets(*mine);
  if (at.sockets.empty()) {
    auto made = links::listen_at(gather.listen);
    if (!made) return bad_input(std::move(made.error().message));
    at = std::move(*made);
    for (std::size_t i = 0; i < at.sockets.size(); ++i) mine->keep(port_name(i), at.sockets[i].number());
  }
  gather.sockets = std::make_shared<const listening_sockets>(std::move(at));
  mine->dead_after(gather.network.dead_after);
  mine->resume_by(std::exchange(gather.resume, {}));
  gather.again = [mine] { return mine->may_fail(); };
  gather.attempt = mine->before().number;
  gather.lost = mine->before().lost;
  return {};
}

result<nodes::gather_options> gather_at(const links::endpoint& where, nodes::network_options network,
                                        std::string resume, std::chrono::milliseconds rejoin_timeout,
                                        std::uint32_t servers, std::uint32_t trainers, console& out) {
  nodes::gather_options gather;
  gather.listen = where;
  gather.network = std::move(network);
  gather.resume = std::move(resume);
  gather.rejoin_timeout = rejoin_timeout;
  TROUPE_DO(fit_to_attempt(gather));
  gather.on_listening = [&out, servers, trainers](const std::vector<links::endpoint>& found) {
    out.note(fmt::format("listening on {} for {} server{} and {} trainer{}", links::description_of(found), servers,
                         servers == 1 ? "" : "s", trainers, trainers == 1 ? "" : "s"));
  };
  return gather;
}

void report_to_supervisor(actors::run_observer& observer, std::uint32_t trainers, trace::recorder* recorder,
                          std::function<void(const attempt_news&)> on_attempt) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return;
  observer.on_begin = [mine, trainers, recorder, on_attempt = std::move(on_attempt)](std::uint64_t step) {
    const attempt_history& before = mine->before();
    const std::uint64_t lost_steps = mine->begun(step);
    describe_attempt(recorder);
    const std::chrono::duration<double> since = std::chrono::steady_clock::now() - before.lost_at;
    if (before.number > 1)
      on_attempt({before.number, before.lost, step, lost_steps, before.leader_was_lost, since.count(), trainers});
  };
  observer.on_progress = [mine, then = observer.on_progress](const actors::run_progress& now) {
    mine->reached(now.step);
    if (then) then(now);
  };
  observer.on_failure = [mine](std::uint64_t step) { mine->reached(step); };
  observer.on_checkpoint = [mine, then = observer.on_checkpoint](const actors::checkpoint_summary& now) {
    if (!now.problem) mine->saved(now.step);
    if (then) then(now);
  };
}

std::string description_of(const attempt_news& news) {
  return fmt::format("attempt {} continues from step {} after {:.2g} s, {}{} step{} lost: {}", news.number,
                     news.from_step, news.seconds, news.may_be_more ? "at least " : "", news.lost_steps,
                     news.lost_steps == 1 ? "" : "s", news.lost);
}

std::string event_of(const attempt_news& news) {
  return json_line("attempt")
      .add("attempt", news.number)
      .add("from_step", news.from_step)
      .add("lost_steps", news.lost_steps)
      .add("seconds", news.seconds)
      .add("lost", news.lost)
      .add("trainers", std::uint64_t{news.trainers})
      .take();
}

supervision_end end_supervision(std::optional<std::uint64_t> steps) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return {};
  supervision_end end;
  if (steps && !mine->from_step()) mine->stopped_at(*steps);
  end.roles = mine->finish_roles(steps.has_value());
  end.attempts = mine->before().number;
  end.steps_redone = mine->redone();
  return end;
}

std::optional<std::string> lossy_settings_note(const model::job& what, const actors::compute_devices& devices) {
  attempt* mine = attempt::mine();
  if (mine == nullptr || mine->before().number > 1) return std::nullopt;
  constexpr const char* same = "after a loss the weights are those of a run that lost nothing, bit for bit";
  if (what.staleness != 0 && !what.streams())
    return fmt::format("--consistency {}: it is not promised that {}",
                       what.staleness == model::any_staleness ? "async" : fmt::format("ssp:{}", what.staleness), same);
  if (devices.trainers && devices.numbers.size() > 1)
    return fmt::format("on {} CUDA devices: {}, only with as many devices", devices.numbers.size(), same);
  return std::nullopt;
}

bool fails_attempt(const fault& why) {
  attempt* mine = attempt::mine();
  if (mine == nullptr || (why.kind != fault_kind::lost && why.kind != fault_kind::device)) return false;
  mine->failed(why.message, why.kind == fault_kind::device);
  return true;
}

}  // namespace troupe::launch
