#include "trace/replay/replay_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>
#include <unordered_map>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "protocol/message_types.hpp"
#include "trace/analysis/training_order.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::replay {

namespace {

/// The numbers of actors in one process, where a group is one actor, and each part of the network has one.
class numbers_in_one_process {
 public:
  explicit numbers_in_one_process(const trace::recording& of) : of_(of), parts_(analysis::training_order(of).parts()) {
    std::set<std::uint32_t> with_trainers;
    for (const trace::actor_state& one : of.actors)
      if (one.name.starts_with("trainer ")) with_trainers.insert(one.process);
    processes_ = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(with_trainers.size()));
  }

  std::uint16_t operator()(std::uint32_t actor) const {
    constexpr std::uint32_t nodes_begin = 0xc000;  // nodes are numbered from the end
    const bool is_of_several = actor >= actors::group_sender(0) && actor < nodes_begin;
    if (!is_of_several && !of_.actor_name(static_cast<std::uint16_t>(actor)).starts_with("allreduce"))
      return static_cast<std::uint16_t>(actor);
    const std::uint32_t part = is_of_several && parts_ > 1 ? (actor - actors::group_sender(0)) / processes_ : 0;
    return static_cast<std::uint16_t>(part == 0 ? actors::group_number : actors::group_sender(part));
  }

 private:
  const trace::recording& of_;
  std::uint32_t parts_;
  std::uint32_t processes_ = 1;
};

/// Returns null if the key is missing.
const boost::json::value& value_of(const boost::json::object& of, std::string_view key) {
  static const boost::json::value none;
  const auto* found = of.if_contains(key);
  return found == nullptr ? none : *found;
}

/// Returns the value of the first process that has the key; null if none has.
const boost::json::value& metadata_of(const trace::recording& of, std::string_view key) {
  static const boost::json::object nothing;
  const auto found =
      std::ranges::find_if(of.processes, [key](const auto& process) { return process.metadata.contains(key); });
  return value_of(found == of.processes.end() ? nothing : found->metadata, key);
}

/// Maps the recorded numbers of the replayed types to this program's.
std::unordered_map<std::uint16_t, std::uint16_t> numbers_of_types(const trace::recording& of) {
  std::unordered_map<std::uint16_t, std::uint16_t> numbers;
  for (const protocol::message_type& type : protocol::all_message_types())
    for (const auto& [number, name] : of.types)
      if (type.traits.replayed && type.name == name) numbers.emplace(number, type.number);
  return numbers;
}

std::optional<std::string> find_gap(const trace::recording& of) {
  for (const trace::process_info& process : of.processes) {
    const std::string who = fmt::format("process {} on {}", process.pid, process.host);
    const auto* mode = process.metadata.if_contains("mode");
    const bool has_log = mode != nullptr && (*mode == "full" || *mode == "payload");
    if (process.overwritten > 0)
      return fmt::format(
          "{} lacks {} records: {}", who, process.overwritten,
          has_log
              ? "they came faster than they could be kept (a larger --trace-ring-mib helps), or the file was cut off"
              : "its ring has room for the last ones only; '--trace full' keeps all");
    if (process.filtered)
      return fmt::format("{} has left records out, as --trace-filter asked for: a replay needs all", who);
  }
  return std::nullopt;
}

/// Returns the first server or trainer of the run that is not recorded.
std::optional<std::string> find_missing(const trace::recording& of, const replay_order& order) {
  const auto is_there = [&](const std::string& name) {
    return std::ranges::find(of.actors, name, &trace::actor_state::name) != of.actors.end();
  };
  for (const std::string role : {"server", "trainer"}) {
    const std::string* text = model::value_of(order.settings, role + "s");
    const auto count = text == nullptr ? std::nullopt : parse_number<std::uint32_t>(*text);
    if (!count) return fmt::format("the recorded settings do not say how many {}s there were", role);
    for (std::uint32_t rank = 0; rank < *count; ++rank)
      if (const std::string name = fmt::format("{} {}", role, rank); !is_there(name))
        return fmt::format("what {} has recorded is not among the files: a replay needs all", name);
  }
  return std::nullopt;
}

}  // namespace

actors::device_request devices_in(const trace::recording& of) {
  using kind = actors::device_request::kind;
  actors::device_request request{kind::cpu, kind::cpu, {}};
  const auto* reported = metadata_of(of, "devices").if_object();
  if (reported == nullptr) return request;
  if (value_of(*reported, "trainers") == true) request.trainers = kind::cuda;
  if (value_of(*reported, "servers") == true) request.servers = kind::cuda;
  if (const auto* numbers = value_of(*reported, "numbers").if_array())
    for (const auto& one : *numbers)
      if (one.is_int64() && one.get_int64() >= 0 && one.get_int64() < 1024)
        request.numbers.push_back(static_cast<int>(one.get_int64()));
  return request;
}

bool is_client(const trace::recording& from, std::uint16_t actor) {
  return from.actor_name(actor).starts_with("client ");
}

namespace {

/// Returns a setting of the job that the metadata had no room for.
std::optional<std::string> find_left_out(const trace::recording& of) {
  for (const trace::process_info& process : of.processes) {
    const auto* names = value_of(process.metadata, trace::left_out_key).if_array();
    if (names == nullptr) continue;
    for (const auto& one : *names)
      if (one.is_string() && one.get_string().starts_with("job."))
        return fmt::format("the recording had no room for the setting {}: a replay needs all",
                           printable(one.get_string()));
  }
  return std::nullopt;
}

}  // namespace

result<replay_order> read_replay_order(const trace::recording& from) {
  if (const auto unreadable = from.unreadable_metadata())
    return bad_input("{}: it is unknown what run it was", *unreadable);
  if (auto gap = find_gap(from)) return bad_input(std::move(*gap));
  const auto* job = metadata_of(from, "job").if_object();
  if (job == nullptr)
    return bad_input(
        "the recording does not say what job the run had: the file of the process that was started by 'troupe train' "
        "or 'troupe master' is missing");
  if (auto left_out = find_left_out(from)) return bad_input(std::move(*left_out));
  replay_order made;
  for (const auto& [name, value] : *job)
    if (value.is_string()) made.settings.emplace_back(name, value.get_string());
  if (const auto* program = metadata_of(from, "program").if_string()) made.program = *program;
  if (auto missing = find_missing(from, made)) return bad_input(std::move(*missing));
  if (const auto* digest = metadata_of(from, "data_digest").if_string()) made.data_digest = *digest;
  if (const auto& begin = metadata_of(from, "from_step"); !begin.is_null() && begin != 0)
    return bad_input("the run went on from the checkpoint of step {}: only runs from the beginning can be replayed",
                     printable(boost::json::serialize(begin)));
  made.is_remote = metadata_of(from, "remote") == true;
  made.devices = devices_in(from);
  if (const auto* result = metadata_of(from, "result").if_object()) {
    made.is_whole = value_of(*result, "stopped") == false;
    if (const auto* digest = value_of(*result, "weights_digest").if_string()) made.weights_digest = *digest;
  }
  std::unordered_map<std::uint64_t, const trace::content*> contents;
  for (const trace::content& one : from.contents) contents.emplace(one.id, &one);
  const auto types = numbers_of_types(from);
  const numbers_in_one_process number_of(from);
  for (const trace::event& one : from.events) {
    const auto type = types.find(one.type);
    if (one.what != trace::kind::handled || type == types.end()) continue;
    msg::header head;
    head.step = one.step;
    head.sender = number_of(static_cast<std::uint32_t>(one.id >> 48));
    const auto held = contents.find(one.id);
    const std::uint16_t receiver = number_of(one.actor);
    if (is_client(from, static_cast<std::uint16_t>(head.sender)) || is_client(from, receiver)) continue;
    made.by_receiver[receiver].push_back({actors::replay_key_of(receiver, head, type->second, one.aux), one.id,
                                          held == contents.end() ? nullptr : held->second});
  }
  if (made.by_receiver.empty())
    return bad_input(made.is_whole ? "the run has sent nothing that a replay compares: it had no lookups, gradients, "
                                     "buckets, calls or collectives"
                                   : "nothing of training is recorded: the run ended before it");
  return made;
}

}  // namespace troupe::replay
