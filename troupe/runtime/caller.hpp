// Makes an actor's calls of modules on servers: numbers them, gives each a deadline, and converts arguments and
// results.

#pragma once

#include <caf/all.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/common/actor_name.hpp"
#include "actors/common/actor_trace.hpp"
#include "actors/common/ask.hpp"
#include "actors/common/failure.hpp"
#include "actors/server/remote_module.hpp"
#include "protocol/messages.hpp"
#include "troupe/future.hpp"
#include "troupe/packed.hpp"
#include "troupe/runtime/reference.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

class trainer_runtime;

/// Gets a result, or the error.
using on_result = std::function<void(detail::packed&, const std::exception_ptr&)>;

/// A call of a method.
struct method_call {
  reference_ptr receiver;
  std::string method;
  detail::packed arguments = {};
  std::chrono::milliseconds deadline = default_deadline;
  /// The optimizer step after which the server calls the method; 0: at once.
  std::uint64_t step = 0;
  /// Whether the server itself is called: `make`, `state_dict`, and so on.
  bool of_server = false;
  /// Whether the module's number is its first argument.
  bool about_module = false;
  /// The shard whose server is called.
  std::size_t shard = 0;
};

/// Belongs to one actor, whose executor is entered for its callbacks.
class caller {
 public:
  virtual ~caller() = default;

  /// Calls `then` once, with the result or the error, unless the actor ends before.
  void call(method_call order, on_result then);

  /// Makes the server of `module` count a reference of actor `holder` more or less.
  void count(std::uint32_t server, std::uint64_t module, std::uint32_t holder, std::int32_t change);

  /// The number of a module's shard at its server.
  std::uint64_t module_of(const reference& which, std::size_t shard = 0) const {
    return which.planned() ? planned_module(*which.planned(), shard) : which.module();
  }

  /// Unpacks the content of a message, and counts its references for this actor. Throws `error` if it is malformed.
  detail::packed unpack(std::string&& fields, const std::vector<msg::tensor>& tensors, bool from_elsewhere);
  /// Puts arguments or a result for actor `receiver` into a message.
  template <class Message>
  void put(detail::packed&& what, std::uint32_t receiver, Message& into) {
    into.fields = fields_for(what, receiver);
    for (const tensor& one : what.tensors) into.tensors.push_back(column_of(one));
  }

  /// Numbers the objects that this actor makes at servers.
  std::uint64_t next_made() { return ++made_; }

  /// Handles an exception of a callback of the actor's tasks: the run ends.
  virtual void callback_threw(const std::exception_ptr& thrown) = 0;

  /// Calls `then` when servers have answered all calls to themselves about their modules; methods of objects may take
  /// any time.
  void when_answered(std::function<void()> then);

  /// Whether a call is unanswered.
  bool is_asking() const { return !open_.empty(); }
  /// Adds the unanswered calls; `name`: the waiting actor's.
  void report_waits(const std::string& name, std::vector<msg::wait_status>& to) const;

  const std::shared_ptr<actor_executor>& executor() const { return executor_; }
  virtual trainer_runtime* trainer() { return nullptr; }
  virtual std::uint32_t number() const = 0;

 protected:
  using answer = std::function<void(caf::expected<msg::returned>)>;

  void calls_from(std::shared_ptr<actor_executor> executor) { executor_ = std::move(executor); }

  virtual void send(std::uint32_t server, msg::call what, answer then) = 0;
  virtual void send(std::uint32_t server, msg::call what) = 0;
  /// Calls `expire` after `delay`.
  virtual void wake_after(std::chrono::milliseconds delay) = 0;
  virtual std::uint64_t planned_module(std::size_t planned, std::size_t shard) const = 0;

  /// Fails the calls whose deadline has passed.
  void expire();

 private:
  using clock = std::chrono::steady_clock;

  struct open_call {
    clock::time_point deadline;
    std::chrono::milliseconds allowed;
    reference_ptr receiver;
    std::size_t shard = 0;
    std::string method;
    bool of_server = false;
    on_result then;
  };

  void look_if_answered();
  void answered(std::uint64_t id, caf::expected<msg::returned>&& result);
  void watch(clock::time_point deadline, clock::time_point now);
  std::string fields_for(const detail::packed& what, std::uint32_t receiver);

  std::shared_ptr<actor_executor> executor_;
  std::uint64_t last_ = 0;
  std::uint64_t made_ = 0;
  std::unordered_map<std::uint64_t, open_call> open_;
  std::function<void()> when_answered_;
  std::optional<clock::time_point> wakes_at_;
};

/// The caller of an actor of CAF.
template <class Pointer>
class actor_caller : public caller {
 public:
  void start(Pointer self, actors::actor_trace& trace, std::uint32_t number, std::shared_ptr<actor_executor> executor) {
    self_ = self;
    trace_ = &trace;
    number_ = number;
    calls_from(std::move(executor));
  }
  /// `planned`: the shards of each planned module.
  void reaches(std::vector<msg::parameter_server_actor> servers, std::vector<std::vector<msg::module_ref>> planned) {
    servers_ = std::move(servers);
    planned_ = std::move(planned);
  }

  std::uint32_t number() const override { return number_; }
  const std::vector<msg::parameter_server_actor>& servers() const { return servers_; }

 protected:
  void send(std::uint32_t server, msg::call what, answer then) override {
    if (server >= servers_.size() || !servers_[server])
      return then(actors::make_failure(actors::errc::bad_input, actors::no_server(server, servers_.size())));
    what.head = trace_->next(what.head.step);
    // Traces name the method, which is of more use than `call`.
    const actors::question question{
        .number = actors::server_number(server), .type = trace_->number_of(what.method), .survives_error = true};
    actors::ask_traced<msg::returned>(
        self_, *trace_, nullptr, servers_[server], question, std::move(what),
        [then](msg::returned& result) { then(std::move(result)); },
        [then](caf::error& error) { then(std::move(error)); });
  }
  void send(std::uint32_t server, msg::call what) override {
    if (server >= servers_.size() || !servers_[server]) return;
    what.head = trace_->next(0);
    caf::anon_send(servers_[server], std::move(what));
  }
  void wake_after(std::chrono::milliseconds delay) override {
    self_->run_delayed(delay, [this] { expire(); });
  }
  std::uint64_t planned_module(std::size_t planned, std::size_t shard) const override {
    return planned < planned_.size() && shard < planned_[planned].size() ? planned_[planned][shard].module : 0;
  }

 private:
  Pointer self_ = nullptr;
  actors::actor_trace* trace_ = nullptr;
  std::uint32_t number_ = 0;
  std::vector<msg::parameter_server_actor> servers_;
  std::vector<std::vector<msg::module_ref>> planned_;
};

/// The executor for calls from threads that run no task of an actor; null if there is no run in this process. Thread:
/// any.
std::shared_ptr<actor_executor> outside();
void set_outside(std::shared_ptr<actor_executor> calls);

/// Makes a call for the actor whose task runs on this thread, or from outside. Throws `error` if `receiver` has been
/// released, or there is no run.
void call(method_call order, on_result then);

}  // namespace troupe::runtime
