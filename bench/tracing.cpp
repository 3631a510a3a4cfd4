// The cost of recording alone: of a record, of a dropped record, and of a flood of small messages with and without a
// ring.
//
//   bench_tracing     nanoseconds: for a record the fastest of several rounds, for a flood the median

#include <algorithm>
#include <caf/all.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "actors/common/actor_trace.hpp"
#include "actors/common/traced_system.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"

namespace {

using std::chrono::steady_clock;
using namespace troupe;

constexpr int rounds = 15;

double ns_since(steady_clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(steady_clock::now() - begin).count();
}

/// Receives `left` messages, then reports that it is done.
struct sink_state {
  std::string name = "server 0";
  std::uint64_t step = 0;
  troupe::actors::actor_trace trace;
  std::uint64_t taken = 0;
  std::uint64_t expected = 0;
  caf::actor done;
  caf::event_based_actor* self = nullptr;

  void handle(const troupe::msg::stop&) {
    if (++taken == expected) self->send(done, true);
  }
};

caf::behavior sink(caf::stateful_actor<sink_state>* self, std::uint64_t expected, const caf::actor& done) {
  self->state.self = self;
  self->state.expected = expected;
  self->state.done = done;
  self->state.trace.start(self, self->system(), 1, 2, self->state.name);
  return {troupe::actors::recorded<troupe::msg::stop>(self)};
}

/// Nanoseconds per message, for many messages from one actor's thread to another.
double flood(trace::recorder* recorder) {
  constexpr std::uint64_t messages = 300'000;
  troupe::actors::traced_config config;
  config.config_file_path.clear();
  config.recorder = recorder;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  const auto receiver = system.spawn(sink, messages, caf::actor_cast<caf::actor>(caf::strong_actor_ptr(self->ctrl())));
  troupe::actors::actor_trace sender;
  sender.start(caf::actor_cast<caf::abstract_actor*>(caf::strong_actor_ptr(self->ctrl())), system, 1, 3, "trainer 0");
  const auto begin = steady_clock::now();
  for (std::uint64_t i = 0; i < messages; ++i) self->send(receiver, troupe::msg::stop{sender.next(1)});
  self->receive([](bool) {});
  const double taken = ns_since(begin) / messages;
  self->send_exit(receiver, caf::exit_reason::user_shutdown);
  return taken;
}

template <class F>
double quickest(F measure) {
  double best = measure();
  for (int i = 1; i < rounds; ++i) best = std::min(best, measure());
  return best;
}

double quantile(std::vector<double> of, double part) {
  const auto at = of.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(of.size() - 1));
  std::ranges::nth_element(of, at);
  return *at;
}

double handling_ns(trace::recorder* recorder, std::uint64_t step) {
  troupe::actors::traced_config config;
  config.config_file_path.clear();
  config.recorder = recorder;
  caf::actor_system system(config);
  caf::scoped_actor self(system);
  troupe::actors::actor_trace trace;
  trace.start(caf::actor_cast<caf::abstract_actor*>(caf::strong_actor_ptr(self->ctrl())), system, 1, 2, "server 0");
  troupe::msg::stop message;
  message.head = {1, step, 3, 0, 1, 0, 1, 0};
  return quickest([&] {
    constexpr int calls = 200'000;
    const auto begin = steady_clock::now();
    for (int i = 0; i < calls; ++i) const troupe::actors::actor_trace::handling scope(trace, message, 0);
    return ns_since(begin) / calls;
  });
}

}  // namespace

int main() {
  troupe::protocol::initialize_types();
  std::string folder = (std::filesystem::temp_directory_path() / "troupe-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  trace::recorder::options how;
  how.folder = folder;
  how.types = troupe::actors::traced_types();
  how.wanted.first_step = 1;
  {
    auto recorder = trace::recorder::start(how);
    if (!recorder) {
      std::fprintf(stderr, "%s\n", recorder.error().message.c_str());
      return 1;
    }
    std::printf("record      %6.1f ns\n", handling_ns(recorder->get(), 1));
    std::printf("dropped     %6.1f ns\n", handling_ns(recorder->get(), 0));
    std::printf("off         %6.1f ns\n", handling_ns(nullptr, 1));
    how.wanted = {};
    auto takes_all = trace::recorder::start(how);
    if (!takes_all) return 1;
    // In pairs, since the machine's speed varies: uses the median of their ratios.
    constexpr int pairs = 51;
    std::vector<double> off, ring, more;
    for (int i = 0; i < pairs; ++i) {
      off.push_back(flood(nullptr));
      ring.push_back(flood(takes_all->get()));
      more.push_back(100 * (ring.back() / off.back() - 1));
    }
    std::printf(
        "flood, off  %6.1f ns a message\nflood, ring %6.1f ns a message (%+.1f %%; half of the pairs %+.1f to %+.1f "
        "%%)\n",
        quantile(off, 0.5), quantile(ring, 0.5), quantile(more, 0.5), quantile(more, 0.25), quantile(more, 0.75));
  }
  std::filesystem::remove_all(folder);
  return 0;
}
