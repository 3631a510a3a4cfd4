#include "troupe/runtime/clients.hpp"

#include <fmt/format.h>

#include <optional>

#include "actors/common/failure.hpp"
#include "actors/common/inline_execution.hpp"
#include "base/stop_grace.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/module_service.hpp"

namespace troupe::runtime {

namespace {

using client_pointer = caf::stateful_actor<client_runtime>*;

/// The first number of clients in messages.
constexpr std::uint32_t first_client_number = 0x5000;
/// How long the run waits for a client's function to return.
constexpr std::chrono::seconds patience{10};

}  // namespace

/// Makes the calls of a client's function.
class client_caller final : public actor_caller<client_pointer> {
 public:
  std::function<void(const std::exception_ptr&)> on_callback_threw;
  void callback_threw(const std::exception_ptr& thrown) override { on_callback_threw(thrown); }
};

class client_runtime {
 public:
  explicit client_runtime(client_pointer self) : self_(self) {}
  ~client_runtime() {
    task_ = {};
    if (!has_ended_ && of_) of_->ended(nullptr, number_);
  }
  client_runtime(const client_runtime&) = delete;
  client_runtime& operator=(const client_runtime&) = delete;

  void start(std::shared_ptr<clients> of, std::size_t number, std::uint64_t run) {
    of_ = std::move(of);
    number_ = number;
    executor_ = std::make_shared<actor_executor>(calls_, caf::strong_actor_ptr(self_->ctrl()));
    calls_.on_callback_threw = [this](const std::exception_ptr& thrown) {
      if (const auto why = error_in_callback(thrown)) of_->failed(std::make_exception_ptr(*why), number_);
    };
    const std::uint32_t own = first_client_number + static_cast<std::uint32_t>(number);
    calls_.start(self_, trace_, own, executor_);
    trace_.start(self_, self_->system(), run, own, fmt::format("client {}", number));
  }

  void run(const client_function& function, const std::vector<msg::parameter_server_actor>& servers,
           const std::vector<std::vector<msg::module_ref>>& modules) {
    calls_.reaches(servers, modules);
    under_way_.emplace([number = number_, executor = executor_]() -> std::optional<open_code> {
      const std::uint64_t turn = executor->turns();
      return open_code{
          .who = fmt::format("client {}", number), .what = "its function", .turn = turn, .runs = turn % 2 != 0};
    });
    executor_->enter([&] {
      task_ = running_task(function(client(*this)), [this](const std::exception_ptr& thrown) {
        if (thrown) return ended(thrown);
        calls_.when_answered([this] { ended(nullptr); });
      });
    });
  }

  /// Called when training is over.
  void end() {
    is_over_ = true;
    if (!has_ended_) self_->run_delayed(patience, [this] { self_->quit(); });
  }
  bool is_over() const { return is_over_; }

  future<> sleep(std::chrono::milliseconds how_long) {
    auto done = std::make_shared<promise<>>();
    auto coming = done->get_future();
    self_->run_delayed(how_long, [this, done] { executor_->enter([&] { done->set(); }); });
    return coming;
  }

 private:
  void ended(const std::exception_ptr& thrown) {
    has_ended_ = true;
    under_way_.reset();
    of_->ended(thrown, number_);
  }

  client_pointer self_;
  actors::actor_trace trace_;
  client_caller calls_;
  std::shared_ptr<actor_executor> executor_;
  std::shared_ptr<clients> of_;
  std::size_t number_ = 0;
  bool is_over_ = false;
  bool has_ended_ = false;
  std::optional<code_under_way> under_way_;
  running_task task_;
};

void clients::begin(caf::actor_system& system, std::uint64_t run,
                    const std::vector<msg::parameter_server_actor>& servers,
                    const std::vector<std::vector<msg::module_ref>>& modules,
                    std::function<void(const caf::error&)> fail) {
  fail_ = std::move(fail);
  {
    const std::lock_guard lock(mutex_);
    running_ = functions_.size();
  }
  for (std::size_t i = 0; i < functions_.size(); ++i) {
    const auto made = system.spawn([](client_pointer self) -> caf::behavior {
      actors::leave_to_workers(self);
      return {[](const std::string&) {}};
    });
    actors_.push_back(caf::actor_cast<caf::actor>(made));
    auto* const self = caf::actor_cast<client_pointer>(made);
    actors::run_in(caf::actor_cast<caf::strong_actor_ptr>(made),
                   [self, me = shared_from_this(), i, run, servers, modules] {
                     self->state.start(me, i, run);
                     self->state.run(me->functions_[i], servers, modules);
                   });
  }
}

void clients::end(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (running_ > 0) then_ = std::exchange(then, nullptr);
  }
  if (then) return then();
  for (const caf::actor& one : actors_) {
    auto* const self = caf::actor_cast<client_pointer>(one);
    actors::run_in(caf::actor_cast<caf::strong_actor_ptr>(one), [self] { self->state.end(); });
  }
}

void clients::stop() {
  for (const caf::actor& one : actors_) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  actors_.clear();
}

void clients::failed(const std::exception_ptr& thrown, std::size_t number) const {
  if (!fail_) return;
  try {
    std::rethrow_exception(thrown);
  } catch (...) {
    fail_(error_in(fmt::format("client {}", number)));
  }
}

void clients::ended(const std::exception_ptr& thrown, std::size_t number) {
  if (thrown) failed(thrown, number);
  std::function<void()> then;
  {
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) then = std::exchange(then_, nullptr);
  }
  if (then) then();
}

}  // namespace troupe::runtime

namespace troupe {

bool client::run_is_over() const { return runtime_->is_over(); }
future<> client::sleep(std::chrono::milliseconds how_long) const { return runtime_->sleep(how_long); }

}  // namespace troupe
