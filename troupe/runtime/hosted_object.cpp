#include "troupe/runtime/hosted_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/common/failure.hpp"
#include "base/digest.hpp"
#include "model/checkpoint/tensors.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"

namespace troupe::runtime {

/// The answer to a call, which comes later.
class hosted_object::open_answer final : public detail::later {
 public:
  open_answer(hosted_object& of, const msg::call& what, const std::function<actors::call_return()>& give_later)
      : object_(of), what_(what), later_(give_later) {}

  detail::reply answer() override {
    return [calls = &object_.service_.calls(), give = later_(), text = object_.description(what_.method),
            asker = what_.head.sender](detail::packed result, const std::exception_ptr& thrown) {
      try {
        if (thrown) std::rethrow_exception(thrown);
        msg::returned answer;
        calls->put(std::move(result), asker, answer);
        give(std::move(answer));
      } catch (...) {
        give(error_in(text));
      }
    };
  }

  void run(task<> what) override {
    running& one = object_.tasks_.emplace_back();
    one.task = running_task(std::move(what), [&one](const std::exception_ptr&) { one.is_done = true; });
  }

 private:
  hosted_object& object_;
  const msg::call& what_;
  const std::function<actors::call_return()>& later_;
};

hosted_object::hosted_object(std::string type, std::unique_ptr<remote_object> object,
                             const detail::method_table& methods, const hosting& how, actors::module_host& host,
                             module_service& service)
    : type_(std::move(type)),
      how_(how),
      server_(host.rank()),
      object_(std::move(object)),
      methods_(methods),
      host_(host),
      service_(service),
      me_(new hosted_object*(this)) {}

std::string hosted_object::description(const std::string& method) const {
  return fmt::format("{}.{} on server {}", type_, method, server_);
}

code_under_way hosted_object::entered(std::string_view method) const {
  return code_under_way([this, method] {
    return open_code{
        .who = fmt::format("server {}", server_), .what = fmt::format("{}.{}", type_, method), .is_awaited = false};
  });
}

std::optional<actors::call_result> hosted_object::call(msg::call& what,
                                                       const std::function<actors::call_return()>& later) {
  std::erase_if(tasks_, [](const running& one) { return one.is_done; });
  const detail::method* const method = methods_.find(what.method);
  if (method == nullptr)
    return actors::make_failure(actors::errc::bad_input, "{}: there is no such method; its methods are {}",
                                description(what.method), methods_.names());
  std::optional<actors::call_result> now;
  try {
    service_.calls().executor()->enter([&] {
      detail::packed given = service_.calls().unpack(std::move(what.fields), what.tensors, what.head.arrived != 0);
      what.tensors.clear();
      open_answer answers(*this, what, later);
      if (!method->call) return join(*method, given, answers.answer());
      const auto under_way = entered(method->name);
      if (auto result = method->call(*object_, given, answers)) {
        msg::returned answer;
        service_.calls().put(std::move(*result), what.head.sender, answer);
        now.emplace(std::move(answer));
      }
    });
  } catch (...) {
    return error_in(description(what.method));
  }
  return now;
}

/// Adds a call to its method's batch.
void hosted_object::join(const detail::method& what, detail::packed& given, detail::reply give) {
  detail::unpacker from(given);
  waiting_call one{from.next_tensor(), std::move(give)};
  const shape& lengths = one.rows.shape();
  if (lengths.dimensions() == 0 || one.rows.count() == 0)
    return one.give(
        {}, std::make_exception_ptr(error(
                error_kind::input, fmt::format("takes rows [n, ...] with n at least 1, not {}", to_string(lengths)))));
  batch& all = batches_[&what];
  if (!all.calls.empty()) {
    const tensor& first = all.calls.front().rows;
    shape as_first = lengths;
    as_first.set(0, first.shape()[0]);
    const bool fits = as_first == first.shape() && one.rows.type() == first.type();
    if (!fits || all.rows + lengths[0] > what.how.max_batch_size) call_joined(what, all);
  }
  all.rows += lengths[0];
  all.calls.push_back(std::move(one));
  if (all.rows >= what.how.max_batch_size) return call_joined(what, all);
  if (all.calls.size() > 1) return;
  host_.post(
      [me = std::weak_ptr(me_), &what, number = all.number] {
        const auto strong = me.lock();
        if (!strong) return;
        hosted_object& self = **strong;
        batch& now = self.batches_[&what];
        if (now.number == number) self.service_.calls().executor()->enter([&] { self.call_joined(what, now); });
      },
      what.how.wait);
}

/// Calls the method once, and returns to every call its rows of the result.
void hosted_object::call_joined(const detail::method& what, batch& all) {
  const std::vector<waiting_call> calls = std::exchange(all.calls, {});
  const std::size_t count = std::exchange(all.rows, 0);
  ++all.number;
  try {
    tensor joined = calls.front().rows;
    if (calls.size() > 1) {
      shape lengths = joined.shape();
      lengths.set(0, count);
      joined = tensor(lengths, joined.type());
      std::byte* to = joined.owner().get();
      for (const waiting_call& one : calls) to = std::ranges::copy(one.rows.bytes(), to).out;
    }
    const auto under_way = entered(what.name);
    const tensor result = what.call_batched(*object_, joined);
    if (result.shape().dimensions() == 0 || result.shape()[0] != count)
      throw error(error_kind::input, fmt::format("returned {} for {} rows", to_string(result.shape()), count));
    const std::size_t row_bytes = result.count() / count * size_of(result.type());
    const std::byte* from = result.owner().get();
    for (const waiting_call& one : calls) {
      shape lengths = result.shape();
      lengths.set(0, one.rows.shape()[0]);
      tensor part(lengths, result.type());
      std::copy_n(from, lengths[0] * row_bytes, part.owner().get());
      from += lengths[0] * row_bytes;
      detail::packed answer;
      detail::pack(answer, std::move(part));
      one.give(std::move(answer), nullptr);
    }
  } catch (...) {
    for (const waiting_call& one : calls) one.give({}, std::current_exception());
  }
}

caf::expected<actors::remote_module::saved> hosted_object::save(const std::string& folder) {
  try {
    const auto under_way = entered("state_dict");
    const uncounted_time of_checkpoint;
    msg::state_entries parts;
    for (auto& [name, numbers] : object_->state_dict()) parts.emplace_back(name, column_of(numbers));
    return save_parts(folder, how_.table, parts);
  } catch (...) {
    return error_in(description("state_dict"));
  }
}

/// A tensor gets the present shape of the object's tensor of that name; without one, it becomes a column.
caf::error hosted_object::restore(const model::checkpoint& from) {
  try {
    const auto under_way = entered("load_state_dict");
    named_tensors state;
    const named_tensors now = object_->state_dict();
    for (const model::table_part& part : from.manifest.tables.at(how_.table).parts) {
      const auto known = std::ranges::find(now, part.name, [](const auto& one) { return one.first; });
      const bool fits = known != now.end() && known->second.count() == part.columns;
      tensor numbers(fits ? known->second.shape() : shape(part.columns), part.type);
      const auto done = model::read_table(from, how_.table, part.name, {}, numbers.bytes());
      if (!done) return actors::make_failure(actors::errc::bad_input, done.error().message);
      state.emplace_back(part.name, std::move(numbers));
    }
    for (const auto& [name, numbers] : now)  // files contain no empty tensors
      if (numbers.count() == 0 && std::ranges::find(state, name, &named_tensors::value_type::first) == state.end())
        state.emplace_back(name, numbers);
    is_restored_ = !state.empty();
    if (is_restored_) object_->load_state_dict(state);
    return {};
  } catch (...) {
    return error_in(description("load_state_dict"));
  }
}

caf::expected<msg::tensor> hosted_object::row_digests(std::uint64_t /*first*/, std::uint64_t count) const {
  try {
    const auto under_way = entered("state_dict");
    running_digest digest;
    for (const auto& [name, numbers] : object_->state_dict()) {
      digest.add(std::as_bytes(std::span(name)));
      digest.add(numbers.bytes());
    }
    return msg::tensor::own(count, 1, std::vector<std::uint64_t>(count, digest.value()));
  } catch (...) {
    return error_in(description("state_dict"));
  }
}

// Errors of the user's methods name the object, and have known types.

named_tensors hosted_object::state_of() {
  try {
    const auto under_way = entered("state_dict");
    return object_->state_dict();
  } catch (...) {
    throw to_error(error_in(description("state_dict")));
  }
}

void hosted_object::load(const named_tensors& state) {
  try {
    const auto under_way = entered("load_state_dict");
    object_->load_state_dict(state);
  } catch (...) {
    throw to_error(error_in(description("load_state_dict")));
  }
}

void hosted_object::move_to(const std::string& device) {
  if (device != "cpu")
    throw error(error_kind::input,
                fmt::format("{}: {} has no code for devices", description("to(" + device + ")"), type_));
}

}  // namespace troupe::runtime
