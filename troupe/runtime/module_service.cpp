#include "troupe/runtime/module_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "actors/common/failure.hpp"
#include "actors/common/traced_system.hpp"
#include "base/exception_text.hpp"
#include "base/mapped.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "model/checkpoint/manifest.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/registry.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

using actors::errc;
using actors::make_failure;

caf::error error_in(const std::string& what) {
  try {
    throw;
  } catch (const error& e) {
    return make_failure(e.kind() == error_kind::input ? errc::bad_input : errc::exception, "{}: {}", what, e.what());
  } catch (const std::bad_alloc& e) {
    return make_failure(errc::out_of_memory, "{}: {}", what, protocol::describe(actors::out_of_memory(e)));
  } catch (const std::exception& e) {
    return make_failure(errc::exception, "{}: {}", what, troupe::text_of(e));
  } catch (...) {
    return make_failure(errc::exception, "{}: an exception of unknown type", what);
  }
}

// -- calls of its modules -------------------------------------------------------------

server_caller::server_caller(actors::module_host& host) : host_(host) {
  calls_from(std::make_shared<actor_executor>(*this, host.actor()));
}

void server_caller::send(std::uint32_t server, msg::call what, answer then) {
  host_.call(server, std::move(what), std::move(then));
}

/// Fails the server, as an exception in a handler does.
void server_caller::callback_threw(const std::exception_ptr& thrown) {
  if (const auto why = error_in_callback(thrown)) host_.post([why = *why] { throw why; }, {});
}

void server_caller::send(std::uint32_t server, msg::call what) { host_.send(server, std::move(what)); }

void server_caller::wake_after(std::chrono::milliseconds delay) {
  host_.post([this] { expire(); }, delay);
}

/// Servers get references to planned modules in messages, with their numbers.
std::uint64_t server_caller::planned_module(std::size_t planned, std::size_t /*shard*/) const {
  throw error(error_kind::input, fmt::format("module {} of the plan is not known on {}", planned, host_.name()));
}

// -- states ---------------------------------------------------------------------------

namespace {

/// The trained tensors of a table.
std::vector<nn::parameter> trained_of(const actors::remote_module& table) {
  return mapped(table.parameters(), [](const msg::parameter_info& one) {
    return nn::parameter{one.name, {one.rows, one.cols}};
  });
}

}  // namespace

std::vector<named_lengths> names_and_lengths(const std::vector<nn::parameter>& tensors) {
  return mapped(tensors, [](const nn::parameter& one) { return named_lengths(one.name, lengths_of(one.shape)); });
}

std::vector<nn::parameter> to_parameters(const std::vector<named_lengths>& all) {
  std::vector<nn::parameter> made;
  for (const auto& [name, lengths] : all) {
    if (lengths.size() > shape::dimensions_max)
      throw error(error_kind::run, fmt::format("parameters: {} has {} dimensions, at most {} are known", name,
                                               lengths.size(), shape::dimensions_max));
    made.push_back({name, shape::of(lengths)});
  }
  return made;
}

/// The prefix of an entry in a table's state; the rest of its name is the optimizer of the buffers. Its number has no
/// meaning.
constexpr std::string_view owner_prefix = "optimizer.";

/// Returns a table's state.
named_tensors to_state(actors::remote_module& of, actors::state_parts which) {
  named_tensors state;
  for (const auto& [name, numbers] : of.state_dict(which)) {
    if (numbers.type != dtype::f32)
      throw error(error_kind::input,
                  fmt::format("state_dict: {} is {}; only float32 has a tensor here", name, name_of(numbers.type)));
    state.emplace_back(name, tensor::of<float>({numbers.rows, numbers.cols}, numbers.as<float>()));
  }
  if (const std::string owner = of.state_owner(); which == actors::state_parts::all && !owner.empty()) {
    const float nothing = 0;
    state.emplace_back(std::string(owner_prefix) + owner, tensor::of(shape(1), std::span(&nothing, 1)));
  }
  return state;
}

/// Returns the entries without the optimizer's name. Throws `error` if `into` has the buffers of another optimizer.
named_tensors without_owner(const named_tensors& state, const actors::remote_module& into, const std::string& text) {
  named_tensors left;
  std::string owner;
  bool has_buffers = false;
  for (const auto& one : state) {
    if (one.first.starts_with(owner_prefix)) {
      owner = one.first.substr(owner_prefix.size());
      continue;
    }
    has_buffers = has_buffers || model::is_optimizer_state(one.first);
    left.push_back(one);
  }
  const std::string own = into.state_owner();
  if (has_buffers && !owner.empty() && !own.empty() && owner != own)
    throw error(error_kind::input,
                fmt::format("{}: the state is of the optimizer {}, the table's is {}; make the optimizer whose state "
                            "it is, or load the weight alone",
                            text, printable(owner), own));
  return left;
}

msg::state_entries from_state(const named_tensors& state) {
  msg::state_entries entries;
  for (const auto& [name, numbers] : state) {
    if (numbers.type() == dtype::i64 || numbers.shape().dimensions() != 2)
      throw error(error_kind::input, fmt::format("'{}' is {} of {}; a table has matrices of float32", name,
                                                 to_string(numbers.shape()), name_of(numbers.type())));
    std::vector<float> all(numbers.count());
    if (numbers.type() == dtype::f32)
      std::ranges::copy(numbers.as<float>(), all.begin());
    else
      std::ranges::transform(numbers.as<double>(), all.begin(), [](double x) { return static_cast<float>(x); });
    entries.emplace_back(name, msg::tensor::own(numbers.shape()[0], numbers.shape()[1], std::move(all)));
  }
  return entries;
}

caf::expected<actors::remote_module::saved> save_parts(const std::string& folder, std::uint64_t place,
                                                       const msg::state_entries& parts) {
  std::vector<model::tensor_view> views;
  for (const auto& [name, numbers] : parts)
    if (numbers.rows > 0)
      views.push_back({{name, numbers.type, {1, numbers.rows}}, std::span(numbers.bytes.data(), numbers.bytes.size())});
  return actors::write_module(folder, place, {}, views);
}

// -- the desk -------------------------------------------------------------------------

module_service::module_service(actors::module_host& host)
    : host_(host), calls_(host), under_way_([this]() -> std::optional<open_code> {
        const std::uint64_t turn = calls_.executor()->turns();
        if (turn % 2 == 0) return std::nullopt;
        return open_code{.who = host_.name(), .what = "a task of its objects", .turn = turn, .is_awaited = false};
      }) {}

actors::remote_module& module_service::module(std::uint64_t number, const std::string& method) {
  actors::remote_module* const found = number == 0 ? nullptr : host_.find(number);
  if (found == nullptr)
    throw error(error_kind::input,
                fmt::format("{} on {}: there is no module {}; it has been released", method, host_.name(), number));
  return *found;
}

kernels::device& module_service::device(const std::string& name) const {
  if (name == "cpu") return kernels::host_device();
  const actors::compute_devices there = actors::devices_of(*host_.actor()->home_system);
  const std::string wanted = fmt::format("to(\"{}\") on {}", printable(name), host_.name());
  const bool is_any = name == "cuda";
  const auto number = parse_number<int>(name.starts_with("cuda:") ? std::string_view(name).substr(5) : "");
  if (!is_any && !number) throw error(error_kind::input, wanted + ": must be cpu, cuda, or cuda:0 and so on");
  if (!there.servers)
    throw error(error_kind::input,
                wanted + ": this server computes on the processor; start it with --server-device cuda");
  if (is_any) return there.of_server(host_.rank());
  const auto found = std::ranges::find(there.numbers, *number);
  if (found == there.numbers.end())
    throw error(error_kind::input,
                fmt::format("{}: this server has the devices {} (--devices)", wanted, fmt::join(there.numbers, ", ")));
  return there.at(static_cast<std::size_t>(found - there.numbers.begin()));
}

std::optional<actors::call_result> module_service::call(msg::call& what,
                                                        const std::function<actors::call_return()>& /*later*/) {
  msg::returned answer;
  try {
    calls_.executor()->enter([&] {
      detail::packed given = calls_.unpack(std::move(what.fields), what.tensors, what.head.arrived != 0);
      detail::packed result;
      detail::unpacker from(given);
      if (what.method == "make") {
        make(from, what.head.sender, result);
      } else if (what.method == "count") {
        count(from);
      } else {
        about(what.method, from, result);
      }
      calls_.put(std::move(result), what.head.sender, answer);
    });
  } catch (const error& e) {
    return make_failure(e.kind() == error_kind::input ? errc::bad_input : errc::exception, e.what());
  } catch (const std::bad_alloc&) {
    return error_in(fmt::format("{} on {}", what.method, host_.name()));
  } catch (const std::exception& e) {
    return make_failure(errc::exception, troupe::text_of(e));
  } catch (...) {
    return error_in(fmt::format("{} on {}", what.method, host_.name()));
  }
  return answer;
}

void module_service::load_state(actors::remote_module& into, detail::unpacker& from, bool only_checks) {
  const std::string text = from.text();
  const auto place = static_cast<place_in_run>(detail::unpack<std::uint8_t>(from));
  // This call was already made before the checkpoint: only check it again.
  const bool is_over = into.is_restored() && place == place_in_run::before_saved;
  if (into.is_restored() && !is_over && place != place_in_run::new_ground)
    throw error(error_kind::input,
                fmt::format("{} by a client, an object's method or a thread of the program: this run was resumed, and "
                            "has restored what it would overwrite; whether the call was made before the checkpoint is "
                            "known of trainer functions only, so call it in one",
                            text));
  const auto state = detail::unpack<named_tensors>(from);
  only_checks = only_checks || is_over;
  if (auto* const shaped = dynamic_cast<module_with_state*>(&into))
    return only_checks ? shaped->check(state) : shaped->load(state);
  const auto entries = from_state(without_owner(state, into, text));
  const caf::error wrong = only_checks ? into.check_state_dict(entries) : into.load_state_dict(entries);
  if (wrong) throw to_error(wrong);
}

void module_service::about(const std::string& method, detail::unpacker& from, detail::packed& result) {
  actors::remote_module& one = module(detail::unpack<std::uint64_t>(from), method);
  auto* const shaped = dynamic_cast<module_with_state*>(&one);
  if (method == "parameters") {
    detail::pack(result, names_and_lengths(shaped != nullptr ? shaped->trained() : trained_of(one)));
  } else if (method == "state_dict") {
    const auto parts = detail::unpack<bool>(from) ? actors::state_parts::all : actors::state_parts::weights;
    detail::pack(result, shaped != nullptr ? shaped->state_of() : to_state(one, parts));
  } else if (method == "load_state_dict" || method == "check_state_dict") {
    load_state(one, from, method == "check_state_dict");
  } else if (method == "to") {
    const std::string device = from.text();
    if (shaped == nullptr)
      throw error(error_kind::input, fmt::format("to(\"{}\") on {}: a table stays where --server-device has put it",
                                                 printable(device), host_.name()));
    shaped->move_to(device);
  } else if (method == "rows") {
    const auto indices = from.next_tensor();
    const auto offsets = from.next_tensor();
    auto found = one.lookup({0, column_of(indices).bytes, column_of(offsets).bytes, {}}, dtype::f32);
    if (!found) throw to_error(found.error());
    const msg::tensor rows = (*found)();
    detail::pack(result, tensor::of<float>({rows.rows, rows.cols}, rows.as<float>()));
  } else {
    throw error(error_kind::input, fmt::format("{} on {}: servers have no such method for it", method, host_.name()));
  }
}

void module_service::make(detail::unpacker& from, std::uint32_t asker, detail::packed& result) {
  msg::instantiate order;
  order.spec.type = from.text();
  order.trainers = detail::unpack<std::uint32_t>(from);
  for (std::size_t left = from.length(); left > 0; --left) {
    std::string name = from.text();
    std::string text = from.text();
    if (name == accumulate_of_run)
      order.accumulate = parse_number<std::uint32_t>(text).value_or(1);
    else if (name == staleness_of_run)
      order.staleness = parse_number<std::uint32_t>(text).value_or(0);
    else
      order.spec.args.emplace_back(std::move(name), std::move(text));
  }
  auto made = host_.make(order);
  if (!made)
    throw error(to_error(made.error()).kind(),
                fmt::format("make on {}: {}", host_.name(), protocol::describe(made.error())));
  if (order.trainers > 0)
    if (const auto wrong = host_.expect_trainers(order)) throw to_error(wrong);
  const std::uint64_t module = host_.add(std::move(*made));
  holders_[module][asker] = 1;
  detail::pack(result, module);
}

/// Counts a reference up or down. A release may arrive before the message that counts the reference, so a sum may be
/// negative for a while.
void module_service::count(detail::unpacker& from) {
  const auto module = detail::unpack<std::uint64_t>(from);
  const auto holder = detail::unpack<std::uint32_t>(from);
  const auto change = detail::unpack<std::int32_t>(from);
  const auto known = holders_.find(module);
  if (known == holders_.end()) return;
  std::int64_t& sum = known->second[holder];
  sum += change;
  if (sum == 0) known->second.erase(holder);
  if (!known->second.empty()) return;
  holders_.erase(known);
  host_.remove(module);
}

}  // namespace troupe::runtime
