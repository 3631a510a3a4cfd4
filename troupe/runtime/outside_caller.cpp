#include "troupe/runtime/outside_caller.hpp"

#include <fmt/format.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "actors/common/inline_execution.hpp"
#include "troupe/runtime/caller.hpp"

namespace troupe::runtime {

namespace {

struct outside_state;
using outside_pointer = caf::stateful_actor<outside_state>*;

/// The actor is named in recordings only from its first call on.
class outside_caller final : public actor_caller<outside_pointer> {
 public:
  std::function<void()> at_first_call;
  std::shared_ptr<actor_executor> trainer;  ///< the trainer that has started it

  void callback_threw(const std::exception_ptr& thrown) override { trainer->callback_threw(thrown); }

 private:
  void send(std::uint32_t server, msg::call what, answer then) override {
    if (const auto start = std::exchange(at_first_call, nullptr)) start();
    actor_caller::send(server, std::move(what), std::move(then));
  }
};

struct outside_state {
  actors::actor_trace trace;
  outside_caller calls;
  std::shared_ptr<actor_executor> executor;
};

constexpr std::uint32_t first_outside_number = 0x4000;

/// The run that has this actor in this process.
std::mutex outside_mutex;
std::uint64_t outside_run = 0;

}  // namespace

void outside_caller_handle::start(caf::actor_system& system, std::uint64_t run, std::uint32_t number,
                                  const std::vector<msg::parameter_server_actor>& servers,
                                  const std::vector<std::vector<msg::module_ref>>& planned,
                                  std::shared_ptr<actor_executor> trainer) {
  const std::lock_guard lock(outside_mutex);
  if (outside_run == run) return;
  outside_run = run;
  const auto made = system.spawn([](outside_pointer self) -> caf::behavior {
    actors::leave_to_workers(self);
    return {[](const std::string&) {}};
  });
  actor_ = caf::actor_cast<caf::actor>(made);
  // The actor runs nothing that uses its state before the first call.
  auto* const self = caf::actor_cast<outside_pointer>(made);
  outside_state& state = self->state;
  state.executor = std::make_shared<actor_executor>(state.calls, caf::actor_cast<caf::strong_actor_ptr>(made));
  const std::uint32_t own = first_outside_number + number;
  state.calls.start(self, state.trace, own, state.executor);
  state.calls.reaches(servers, planned);
  state.calls.trainer = std::move(trainer);
  state.calls.at_first_call = [self, run, own] {
    self->state.trace.start(self, self->system(), run, own, fmt::format("outside {}", own - first_outside_number));
  };
  set_outside(state.executor);
}

outside_caller_handle::~outside_caller_handle() {
  if (!actor_) return;
  caf::anon_send_exit(actor_, caf::exit_reason::user_shutdown);
  set_outside(nullptr);
}

}  // namespace troupe::runtime
