#include "cluster/nodes/unreturned.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <caf/all.hpp>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "actors/common/actor_name.hpp"

namespace troupe::nodes {

namespace {

struct leading_master {
  std::mutex mutex;
  const leading_run* owner = nullptr;  ///< null: there is no run
  caf::actor_system* system = nullptr;
  const msg::master_actor* boss = nullptr;
  bool has_functions = false;
};

/// It is never destroyed: a thread may look while the process exits.
leading_master& the_leading_master() {
  static auto* const only = new leading_master;
  return *only;
}

}  // namespace

leading_run::leading_run(caf::actor_system& system, const msg::master_actor& boss, bool has_functions) {
  const std::lock_guard lock(the_leading_master().mutex);
  the_leading_master().owner = this;
  the_leading_master().system = &system;
  the_leading_master().boss = &boss;
  the_leading_master().has_functions = has_functions;
}

leading_run::~leading_run() {
  const std::lock_guard lock(the_leading_master().mutex);
  if (the_leading_master().owner == this) the_leading_master().owner = nullptr;
}

bool leads_run() {
  const std::lock_guard lock(the_leading_master().mutex);
  return the_leading_master().owner != nullptr;
}

std::optional<reported_run> ask_leading_master(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(the_leading_master().mutex);  // keeps the system alive
  if (the_leading_master().owner == nullptr) return std::nullopt;
  std::optional<reported_run> answer;
  const caf::scoped_actor self(*the_leading_master().system);
  self->request(*the_leading_master().boss, timeout,
                msg::status{msg::header_source(0, actors::client_number).next(0, 0)})
      .receive(
          [&](msg::run_status& now) {
            answer = reported_run{std::move(now), the_leading_master().has_functions};
          },
          [](const caf::error&) {});
  return answer;
}

namespace {

/// An error names what is stuck first, then what continues, then what waits.
enum class blame : std::uint8_t { stuck, continues, waits };

class unreturned_text {
 public:
  unreturned_text(const std::vector<open_code>& before, const std::vector<open_code>& now,
                  const std::optional<reported_run>& run)
      : before_(before), run_(run) {
    for (const open_code& one : now)
      if (one.is_awaited) add_code(one);
    std::for_each(now.rbegin(), now.rend(), [this](const open_code& one) {
      if (!one.is_awaited) add_code(one);
    });
    if (!run_) return;
    for (const msg::actor_status& one : run_->status.actors)
      if (!here_.contains(one.name)) add_actor(one);
  }

  std::string all() {
    std::ranges::stable_sort(found_, {}, &std::pair<blame, std::string>::first);
    constexpr std::size_t most = 6;
    std::vector<std::string> answer;
    for (const auto& [why, text] : found_)
      if (answer.size() < most) answer.push_back(text);
    if (found_.size() > most) answer.push_back(fmt::format("and {} more", found_.size() - most));
    if (has_own_code_)
      answer.emplace_back(
          "a function notices a stop request where it awaits: co_await in long work, and return when that throws");
    return fmt::format("{}", fmt::join(answer, "; "));
  }

 private:
  void add(blame why, std::string text) { found_.emplace_back(why, std::move(text)); }

  void add_code(const open_code& one) {
    if (one.who.empty()) return add(blame::stuck, one.what);
    has_own_code_ = true;
    const bool is_same = std::ranges::any_of(
        before_, [&](const open_code& other) { return other.id == one.id && other.turn == one.turn; });
    if (!one.is_awaited && !is_same) return;  // the call began after the first look
    const bool is_new = here_.insert(one.who).second;
    if (!one.is_awaited && !is_new) return;  // it called the code already named
    if (is_same && one.runs)
      add(blame::stuck, fmt::format("{} has not returned from {}", one.who, one.what));
    else if (is_same)
      add(blame::waits, fmt::format("{} waits{} in {}", one.who, waits_of(one.who), one.what));
    else
      add(blame::continues, fmt::format("{} continues with {}", one.who, one.what));
  }

  /// Adds an actor without code in this process: it is in another process, or runs a job.
  void add_actor(const msg::actor_status& one) {
    const std::string who = one.name + process_of(one.name);
    const std::string waits = waits_of(one.name);
    const bool has_function = run_->has_functions && one.name.starts_with("trainer");
    has_own_code_ = has_own_code_ || run_->has_functions;
    if (one.phase == "computing" && has_function)
      add(blame::stuck, fmt::format("{} has not returned from its own function or loop{}", who, asked_of(one.name)));
    else if (one.phase == "computing")
      add(blame::stuck, fmt::format("{} is at work and handles no message{}", who, asked_of(one.name)));
    else if (!waits.empty())
      add(blame::waits, fmt::format("{} waits{}", who, waits));
    else if (has_function && one.phase == "training")
      add(blame::waits, fmt::format("{} has not ended its function", who));
  }

  /// ` for barrier #1 of trainers 0..1 of trainer 1`
  std::string waits_of(const std::string& name) const {
    if (!run_) return {};
    const auto& waits = run_->status.waits;
    const auto first = std::ranges::find(waits, name, &msg::wait_status::who);
    if (first == waits.end()) return {};
    return fmt::format(" for {}{}{}", first->what, first->step > 0 ? fmt::format(" of step {}", first->step) : "",
                       first->on.empty() ? "" : " from " + first->on);
  }

  /// ` (trainer 0 waits for counter.add)`
  std::string asked_of(const std::string& name) const {
    const auto& waits = run_->status.waits;
    const auto first = std::ranges::find(waits, name, &msg::wait_status::on);
    return first == waits.end() || first->who.empty() ? "" : fmt::format(" ({} waits for {})", first->who, first->what);
  }

  /// ` (pid 17)`, with the host if it is named.
  std::string process_of(const std::string& name) const {
    for (const msg::node_status& one : run_->status.nodes)
      for (const std::uint32_t rank : one.ranks)
        if (name == fmt::format("{} {}", one.trains ? "trainer" : "server", rank))
          return one.host.empty() ? fmt::format(" (pid {})", one.pid)
                                  : fmt::format(" (host {}, pid {})", one.host, one.pid);
    return {};
  }

  const std::vector<open_code>& before_;
  const std::optional<reported_run>& run_;
  std::set<std::string> here_;  ///< actors with code in this process
  bool has_own_code_ = false;   ///< code of the user's program
  std::vector<std::pair<blame, std::string>> found_;
};

}  // namespace

std::string unreturned_functions_text(const std::vector<open_code>& before, const std::vector<open_code>& now,
                                      const std::optional<reported_run>& run) {
  return unreturned_text(before, now, run).all();
}

}  // namespace troupe::nodes
