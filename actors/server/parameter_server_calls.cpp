// The parameter server's calls: calls of its modules' methods, and calls that its modules make.

#include <algorithm>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/common/ask.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/server/parameter_server.hpp"

namespace troupe::actors {

/// The server, as its modules see it.
class parameter_server_state::host final : public module_host {
 public:
  explicit host(parameter_server_state& of) : server_(of) {}
  /// Records the work of the last messages.
  ~host() override {
    try {
      server_.work_on(0);
    } catch (const kernels::device_error&) {
      // The device has failed, which has been reported.
    }
  }
  host(const host&) = delete;
  host& operator=(const host&) = delete;

  std::uint32_t rank() const override { return server_.rank_; }
  std::uint64_t run() const override { return server_.run_; }
  const std::string& name() const override { return server_.name; }
  caf::strong_actor_ptr actor() const override { return caf::actor_cast<caf::strong_actor_ptr>(me_); }

  std::uint64_t add(std::unique_ptr<remote_module> made) override {
    const std::uint64_t module = server_.next_module_++;
    server_.modules_.emplace(module, std::move(made));
    return module;
  }

  remote_module* find(std::uint64_t module) override { return server_.called_module(module); }

  void remove(std::uint64_t module) override {
    post([this, module] { server_.modules_.erase(module); }, {});
  }

  std::shared_ptr<model::table_batch> tables_on(kernels::device& where) override {
    if (where.is_host()) return nullptr;
    if (!tables_) make_tables(where);
    return tables_;
  }

  caf::error expect_trainers(const msg::instantiate& order) override {
    return server_.expect({order.trainers, order.accumulate, order.staleness}, 0);
  }

  caf::expected<std::unique_ptr<remote_module>> make(const msg::instantiate& order) override {
    return server_.make(order);
  }

  void post(std::function<void()> what, std::chrono::microseconds delay) override {
    if (delay.count() > 0)
      server_.self_->run_delayed(delay, std::move(what));
    else if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(me_))
      run_in(strong, std::move(what), server_.self_->context());
  }

  void call(std::uint32_t rank, msg::call what, call_return then) override {
    if (rank >= server_.servers_.size() || !server_.servers_[rank])
      return then(make_failure(errc::bad_input, no_server(rank, server_.servers_.size())));
    what.head = server_.trace.next(server_.step);
    ask_traced<msg::returned>(
        server_.self_, server_.trace, nullptr, server_.servers_[rank],
        {.number = server_number(rank), .survives_error = true}, std::move(what),
        [then](msg::returned& answer) { then(std::move(answer)); },
        [then](caf::error& error) { then(std::move(error)); });
  }

  void send(std::uint32_t rank, msg::call what) override {
    if (rank >= server_.servers_.size() || !server_.servers_[rank]) return;
    what.head = server_.trace.next(server_.step);
    caf::anon_send(server_.servers_[rank], std::move(what));
  }

 private:
  void make_tables(kernels::device& where) {
    tables_ = std::make_shared<model::table_batch>(where);
    server_.device_.graphs = where.graphs();
    if (!server_.trace.is_on()) return;
    const auto number_of = [](trace::range_name name) { return static_cast<std::uint16_t>(name); };
    tables_->time_work({number_of(trace::range_name::pool), number_of(trace::range_name::copy),
                        number_of(trace::range_name::group), number_of(trace::range_name::update)});
    server_.device_.timer = &tables_->timer();
  }

  parameter_server_state& server_;
  std::shared_ptr<model::table_batch> tables_;
  caf::weak_actor_ptr me_ = caf::actor_cast<caf::weak_actor_ptr>(server_.self_);
};

module_host& parameter_server_state::as_host() {
  if (!host_) host_ = std::make_unique<host>(*this);
  return *host_;
}

caf::expected<std::unique_ptr<remote_module>> parameter_server_state::make(const msg::instantiate& order) {
  auto made = make_remote_module(order, as_host(), devices_of(self_->system()).of_server(rank_));
  if (made && (*made)->runs_users_code()) leave_to_workers(self_);
  return made;
}

/// Returns the module to call; null: it does not exist. Module 0 is made when it is first called.
remote_module* parameter_server_state::called_module(std::uint64_t module) {
  if (const auto known = modules_.find(module); known != modules_.end()) return known->second.get();
  if (module != 0) return nullptr;
  auto made = make({});
  return made ? modules_.emplace(0, std::move(*made)).first->second.get() : nullptr;
}

caf::result<msg::returned> parameter_server_state::handle(msg::call& what) {
  if (auto error = check_run(what.head)) return error;
  if (what.in_step) {
    if (contexts_.by().trainers == 0)
      return refusal(errc::wrong_context, "a call of step {}, before any module is trained here", what.head.step);
    if (auto error = check_origin(what.head, "a call in a step")) return error;
    if (auto error = check_context(what.head)) return error;
    if (contexts_.missing_before(what.head.step) > contexts_.by().staleness) {
      parked_.calls.push_back({std::move(what), self_->make_response_promise<msg::returned>()});
      return parked_.calls.back().promise;
    }
  }
  remote_module* const module = called_module(what.module);
  if (module == nullptr)
    return refusal(errc::unknown_module, "{}: there is no module {} here; it has been released", what.method,
                   what.module);
  const msg::header head = what.head;
  const actor_trace::range working(trace, trace.given_range(what.method), head.step, trace.latest());
  std::optional<caf::typed_response_promise<msg::returned>> promise;
  auto now = module->call(what, [&]() -> call_return {
    promise = self_->make_response_promise<msg::returned>();
    return [this, promise = *promise, head](call_result result) mutable {
      if (result) result->head = trace.next(head.step, msg::id_of(head));
      promise.deliver(std::move(result));
    };
  });
  if (!now) return *promise;
  if (*now) (*now)->head = trace.next(head.step, msg::id_of(head), trace.latest());
  return std::move(*now);
}

/// Runs a parked call.
void parameter_server_state::dispatch(parked_call& one) {
  remote_module* const module = called_module(one.what.module);
  if (module == nullptr)
    return one.promise.deliver(refusal(errc::unknown_module, "{}: there is no module {} here; it has been released",
                                       one.what.method, one.what.module));
  const msg::header head = one.what.head;
  const actor_trace::range working(trace, trace.given_range(one.what.method), head.step, trace.latest());
  call_return answer = [this, promise = one.promise, head](call_result result) mutable {
    if (result) result->head = trace.next(head.step, msg::id_of(head));
    promise.deliver(std::move(result));
  };
  if (auto now = module->call(one.what, [&] { return answer; })) answer(std::move(*now));
}

/// Runs the parked calls that are ready, in the order of arrival.
void parameter_server_state::release_parked_calls() {
  if (parked_.calls.empty()) return;
  std::vector<parked_call> ready;
  std::erase_if(parked_.calls, [&](parked_call& one) {
    if (contexts_.missing_before(one.what.head.step) > contexts_.by().staleness) return false;
    ready.push_back(std::move(one));
    return true;
  });
  for (parked_call& one : ready) dispatch(one);
}

void send_to_servers(const msg::parameter_server_actor& server, std::vector<msg::parameter_server_actor> all) {
  auto* const self = caf::actor_cast<parameter_server_state::pointer>(server);
  run_in(caf::actor_cast<caf::strong_actor_ptr>(server),
         [self, all = std::move(all)] { self->state.servers_are(all); });
}

}  // namespace troupe::actors
