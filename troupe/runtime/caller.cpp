#include "troupe/runtime/caller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "troupe/error.hpp"
#include "troupe/runtime/deadline.hpp"
#include "troupe/runtime/errors.hpp"

namespace troupe::runtime {

// -- references -----------------------------------------------------------------------

std::string reference::description(const std::string& method, std::optional<std::size_t> shard) const {
  return fmt::format("{}{}{}{}{} on {}", what_.type, method.empty() ? "" : ".", method,
                     what_.label.empty() ? "" : " of ", what_.label,
                     shards() > 1 && !shard ? fmt::format("{} servers", shards())
                                            : fmt::format("server {}", server(shard.value_or(0))));
}

void reference::release() const {
  if (is_released_.exchange(true) || !holder_) return;
  const auto give_up = [server = server(), module = module_, calls = &holder_->owner()] {
    calls->count(server, module, calls->number(), -1);
  };
  if (executor::current() == holder_.get())
    give_up();
  else
    holder_->post_function(give_up);
}

void reference::check_usable(const std::string& method) const {
  if (is_released_)
    throw error(error_kind::input, fmt::format("{}: the handle has been released", description(method)));
}

void reference::check_whole() const {
  if (shards() > 1)
    throw error(error_kind::input,
                fmt::format("{}: no message has a handle of a table that is spread over servers; make it on one "
                            "server, or give the handle to trainers and clients as an argument of their functions",
                            description()));
}

// -- messages -------------------------------------------------------------------------

// The handles follow the fields, each with server, module, whether it is counted, and identity; then their size and
// number.

std::string caller::fields_for(const detail::packed& what, std::uint32_t receiver) {
  detail::packed tail;
  for (const reference_ptr& one : what.handles) {
    one->check_usable("");
    one->check_whole();
    const std::uint64_t module = module_of(*one);
    if (one->is_counted()) count(one->server(), module, receiver, 1);
    detail::pack(tail, one->server());
    detail::pack(tail, module);
    detail::pack(tail, one->is_counted());
    detail::pack(tail, one->what().type);
    detail::pack(tail, one->what().label);
    detail::pack(tail, one->what().details);
  }
  std::string fields = what.fields;
  const auto tail_bytes = static_cast<std::uint32_t>(tail.fields.size());
  const auto handles = static_cast<std::uint32_t>(what.handles.size());
  if (handles > 0) fields += tail.fields;
  fields.append(reinterpret_cast<const char*>(&tail_bytes), sizeof tail_bytes);
  fields.append(reinterpret_cast<const char*>(&handles), sizeof handles);
  return fields;
}

detail::packed caller::unpack(std::string&& fields, const std::vector<msg::tensor>& tensors, bool from_elsewhere) {
  const auto refuse = [] { throw error(error_kind::run, "a call that is malformed"); };
  detail::packed made;
  std::uint32_t ends[2] = {};  // size of the handles in bytes, and their number
  if (fields.size() < sizeof ends) refuse();
  std::memcpy(ends, fields.data() + fields.size() - sizeof ends, sizeof ends);
  if (ends[0] > fields.size() - sizeof ends) refuse();
  const std::size_t size = fields.size() - sizeof ends - ends[0];
  if (ends[1] > 0) {
    detail::packed tail{.fields = fields.substr(size, ends[0])};
    detail::unpacker from(tail);
    for (std::uint32_t i = 0; i < ends[1]; ++i) {
      const auto server = detail::unpack<std::uint32_t>(from);
      const auto module = detail::unpack<std::uint64_t>(from);
      const auto counted = detail::unpack<bool>(from);
      module_identity what;
      for (std::string* text : {&what.type, &what.label, &what.details}) *text = from.text();
      made.handles.push_back(
          std::make_shared<const reference>(std::move(what), server, module, counted ? executor_ : nullptr));
    }
  }
  fields.resize(size);
  made.fields = std::move(fields);
  for (const msg::tensor& one : tensors) {
    const msg::tensor column(one.type, one.rows * one.cols, 1, one.bytes.on_host());
    auto flat = tensor_of(column, {column.rows}, from_elsewhere);  // if from elsewhere, the link owns the bytes
    if (!flat) refuse();
    made.tensors.push_back(std::move(*flat));
  }
  return made;
}

// -- calls ----------------------------------------------------------------------------

void caller::call(method_call order, on_result then) {
  const std::uint32_t server = order.receiver->server(order.shard);
  const std::uint64_t module = module_of(*order.receiver, order.shard);
  msg::call message;
  message.head.step = order.step;
  message.in_step = order.step != 0;
  message.module = order.of_server ? 0 : module;
  message.method = order.method;
  if (order.about_module) {
    detail::packed number;
    detail::pack(number, module);
    order.arguments.fields.insert(0, number.fields);
  }
  put(std::move(order.arguments), actors::server_number(server), message);
  const auto now = clock::now();
  const std::uint64_t id = ++last_;
  const auto due = now + bounded(order.deadline);
  open_.emplace(id, open_call{due, order.deadline, std::move(order.receiver), order.shard, std::move(order.method),
                              order.of_server, std::move(then)});
  watch(due, now);
  send(server, std::move(message),
       [this, id](caf::expected<msg::returned> result) { answered(id, std::move(result)); });
}

void caller::answered(std::uint64_t id, caf::expected<msg::returned>&& result) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;  // its deadline has passed
  const open_call done = std::move(found->second);
  open_.erase(found);
  executor_->enter([&] {
    detail::packed value;
    std::exception_ptr thrown;
    if (!result) {
      const bool is_late = result.error() == protocol::errc::timeout;  // the link does not know the method
      error why = to_error(result.error());
      if (is_late)
        why = error(why.kind(), fmt::format("{}: {}", done.receiver->description(done.method, done.shard), why.what()),
                    why.is_transient());
      const bool is_gone = protocol::is_secondary(result.error());
      thrown = std::make_exception_ptr(
          is_gone ? error(error_kind::dropped,
                          fmt::format("{}: the server has gone", done.receiver->description(done.method, done.shard)))
                  : why);
    } else {
      try {
        value = unpack(std::move(result->fields), result->tensors, result->head.arrived != 0);
      } catch (...) {
        thrown = std::current_exception();
      }
    }
    done.then(value, thrown);
    look_if_answered();
  });
}

void caller::when_answered(std::function<void()> then) {
  when_answered_ = std::move(then);
  look_if_answered();
}

void caller::report_waits(const std::string& name, std::vector<msg::wait_status>& to) const {
  for (const auto& [id, one] : open_)
    to.push_back({name, fmt::format("{}.{}", one.receiver->what().type, one.method), 0,
                  fmt::format("server {}", one.receiver->server(one.shard))});
}

void caller::look_if_answered() {
  if (!when_answered_ || std::ranges::any_of(open_, [](const auto& one) { return one.second.of_server; })) return;
  std::exchange(when_answered_, nullptr)();
}

/// Wakes no later than `deadline`.
void caller::watch(clock::time_point deadline, clock::time_point now) {
  if (wakes_at_ && *wakes_at_ <= deadline) return;
  wakes_at_ = deadline;
  wake_after(std::chrono::ceil<std::chrono::milliseconds>(deadline - now));
}

void caller::expire() {
  const auto now = clock::now();
  if (wakes_at_ && *wakes_at_ > now) return;  // an earlier deadline has been added since, or this timer was early
  wakes_at_.reset();
  std::vector<open_call> late;
  std::optional<clock::time_point> next;
  std::erase_if(open_, [&](auto& one) {
    if (one.second.deadline > now) {
      next = next ? std::min(*next, one.second.deadline) : one.second.deadline;
      return false;
    }
    late.push_back(std::move(one.second));
    return true;
  });
  if (next) watch(*next, now);
  for (const open_call& one : late)
    executor_->enter([&] {
      detail::packed nothing;
      one.then(nothing,
               std::make_exception_ptr(not_in_time(one.receiver->description(one.method, one.shard), one.allowed)));
      look_if_answered();
    });
}

void caller::count(std::uint32_t server, std::uint64_t module, std::uint32_t holder, std::int32_t change) {
  msg::call message;
  message.method = "count";
  detail::packed arguments;
  detail::pack(arguments, module);
  detail::pack(arguments, holder);
  detail::pack(arguments, change);
  put(std::move(arguments), actors::server_number(server), message);
  send(server, std::move(message));
}

namespace {

struct outside_calls {
  std::mutex mutex;
  std::shared_ptr<actor_executor> by;
};

outside_calls& all_outside_calls() {
  static outside_calls all;
  return all;
}

}  // namespace

std::shared_ptr<actor_executor> outside() {
  const std::lock_guard lock(all_outside_calls().mutex);
  return all_outside_calls().by;
}

void set_outside(std::shared_ptr<actor_executor> calls) {
  const std::lock_guard lock(all_outside_calls().mutex);
  all_outside_calls().by = std::move(calls);
}

void call(method_call order, on_result then) {
  if (order.receiver == nullptr) throw error(error_kind::input, order.method + ": a handle of no module");
  order.receiver->check_usable(order.method);
  if (auto* const here = actor_executor::here()) return here->owner().call(std::move(order), std::move(then));
  const auto by = outside();
  if (!by)
    throw error(error_kind::input,
                fmt::format("{}: no run is under way in this process", order.receiver->description(order.method)));
  auto* const calls = &by->owner();
  by->post_function([calls, order = std::move(order), then = std::move(then)] { calls->call(order, then); });
}

}  // namespace troupe::runtime
