#include "trace/replay/actor_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "actors/collective/allreduce_group.hpp"
#include "actors/common/actor_name.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/trainer/job_trainer.hpp"
#include "protocol/content_reader.hpp"
#include "protocol/errors.hpp"
#include "protocol/message_content.hpp"
#include "protocol/message_types.hpp"
#include "trace/analysis/contents.hpp"
#include "trace/analysis/training_order.hpp"
#include "trace/replay/replay_order.hpp"

namespace troupe::replay {

namespace {

/// Key that finds a sent message among the recorded ones. The sequence number would do if actors did not also answer
/// status queries, which come at any time.
struct sent_key {
  std::uint16_t receiver = 0;
  std::string type;
  std::uint64_t step = 0;
  auto operator<=>(const sent_key&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// Runs all actors in turn on the caller's thread.
struct one_thread : actors::traced_config {
  one_thread() {
    protocol::initialize_types();
    config_file_path.clear();
    set("caf.scheduler.policy", "testing");
  }
};

/// Plays all other actors of the run to one actor.
class stage {
 public:
  stage(const trace::recording& from, std::uint16_t actor) : recorded_(from), actor_(actor), system_(config_) {
    for (const trace::content& one : from.contents) contents_.emplace(one.id, &one);
    std::vector<const trace::event*> sent;
    for (const trace::event& one : from.events) {
      if (one.what != trace::kind::handled) continue;
      if (one.actor == actor) inputs_.push_back(&one);
      if (one.id >> 48 == actor) sent.push_back(&one);
    }
    std::ranges::stable_sort(sent, {}, &trace::event::id);
    for (const trace::event* one : sent) sent_[{one->actor, from.type_name(one->type), one->step}].push_back(one->id);
    made_.recorded = inputs_.size();
  }

  ~stage() {
    promises_.clear();
    for (const caf::actor& one : spawned_) caf::anon_send_exit(one, caf::exit_reason::kill);
    turn();
  }

  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;

  result<actor_replay_result> play(const std::function<void(std::uint64_t, const std::string&)>& before) {
    if (auto problem = spawn()) return bad_input(std::move(*problem));
    for (const trace::event* input : inputs_) {
      if (!made_.difference.empty() || ended_) break;
      const std::string text = description_of(*input);
      if (before) before(input->id, text);
      if (auto problem = give(*input)) return bad_input("{}: {}", text, *problem);
      turn();
      ++made_.handled;
    }
    if (made_.handled == made_.recorded && made_.difference.empty()) find_unsent();
    return std::move(made_);
  }

 private:
  struct owed_answer {
    caf::strong_actor_ptr by;
    caf::response_promise promise;
  };

  std::string description_of(const trace::event& message) const {
    return fmt::format("step {}: {} ({})", message.step, recorded_.message_name(message.id),
                       recorded_.type_name(message.type));
  }

  /// Runs all actors until none has work.
  void turn() { dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler()).run(); }

  // -- the actor ------------------------------------------------------------------------

  std::optional<std::string> spawn() {
    const std::string name = recorded_.actor_name(actor_);
    const std::uint32_t servers = count_of("server ");
    if (name.starts_with("server ")) {
      watch(system_.spawn(actors::parameter_server, recorded_.run, actor_ - actors::server_number(0)));
    } else if (name.starts_with("trainer ")) {
      watch(system_.spawn(actors::trainer, recorded_.run, actor_ - actors::trainer_number(0, servers), servers));
      send_peers();
    } else if (const auto its_part = part_of_group()) {
      const std::uint32_t parts = analysis::training_order(recorded_).parts();
      watch(system_.spawn(actors::allreduce_group, recorded_.run,
                          actors::group_layout::one_process(count_of("trainer ") / parts, *its_part, parts)));
    } else {
      return fmt::format(
          "{}: alone, only servers, trainers and the allreduce group of one process can be run again; 'troupe trace "
          "replay' without --actor runs all again",
          name);
    }
    return std::nullopt;
  }

  template <class Handle>
  void watch(const Handle& one) {
    target_ = caf::actor_cast<caf::actor>(one);
    spawned_.push_back(target_);
    target_->attach_functor([this](const caf::error& reason) {
      ended_ = true;
      if (reason && reason != caf::exit_reason::user_shutdown && reason != caf::exit_reason::kill)
        made_.end = protocol::describe(reason);
    });
  }

  /// Returns the part whose allreduce group the actor is; nullopt if it is not a group, or one of several processes.
  std::optional<std::uint32_t> part_of_group() const {
    if (actor_ == actors::group_number) return 0;
    std::set<std::uint32_t> with_trainers;
    for (const trace::actor_state& one : recorded_.actors)
      if (one.name.starts_with("trainer ")) with_trainers.insert(one.process);
    if (!recorded_.actor_name(actor_).starts_with("allreduce ") || with_trainers.size() > 1) return std::nullopt;
    return actor_ - actors::group_sender(0);
  }

  std::uint32_t count_of(std::string_view role) const {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        recorded_.actors, [role](const trace::actor_state& one) { return one.name.starts_with(role); }));
  }

  // -- its input -------------------------------------------------------------------------

  /// Gives the actor its next recorded message.
  std::optional<std::string> give(const trace::event& input) {
    using give_one = std::optional<std::string> (stage::*)(const trace::event&);
    static const std::map<std::string_view, give_one> all = {
        {protocol::message_name_v<msg::instantiate>, &stage::ask<msg::instantiate, msg::module_ref>},
        {protocol::message_name_v<msg::lookup>, &stage::ask<msg::lookup, msg::rows>},
        {protocol::message_name_v<msg::gradient>, &stage::ask<msg::gradient, void>},
        {protocol::message_name_v<msg::gradient_norm>, &stage::ask<msg::gradient_norm, msg::squared_norm>},
        {protocol::message_name_v<msg::optimizer_step>, &stage::ask<msg::optimizer_step, msg::committed>},
        {protocol::message_name_v<msg::parameters>, &stage::ask<msg::parameters, msg::parameter_list>},
        {protocol::message_name_v<msg::state_dict>, &stage::ask<msg::state_dict, msg::module_state>},
        {protocol::message_name_v<msg::load_state_dict>, &stage::ask<msg::load_state_dict, msg::committed>},
        {protocol::message_name_v<msg::row_digests>, &stage::ask<msg::row_digests, msg::tensor>},
        {protocol::message_name_v<msg::release>, &stage::ask<msg::release, void>},
        {protocol::message_name_v<msg::set_optimizer>, &stage::ask<msg::set_optimizer, void>},
        {protocol::message_name_v<msg::call>, &stage::ask<msg::call, msg::returned>},
        {protocol::message_name_v<msg::actor_query>, &stage::ask<msg::actor_query, msg::actor_status>},
        {protocol::message_name_v<msg::train>, &stage::ask<msg::train, msg::trained>},
        {protocol::message_name_v<msg::stop>, &stage::ask<msg::stop, void>},
        {protocol::message_name_v<msg::trainer_ended>, &stage::ask<msg::trainer_ended, void>},
        {protocol::message_name_v<msg::reduce>, &stage::ask<msg::reduce, msg::reduced>},
        {protocol::message_name_v<msg::activation>, &stage::ask<msg::activation, void>},
        {protocol::message_name_v<msg::activation_gradient>, &stage::ask<msg::activation_gradient, void>},
        {protocol::message_name_v<msg::part_outputs>, &stage::ask<msg::part_outputs, void>},
        {protocol::message_name_v<msg::partial_sum>, &stage::ask<msg::partial_sum, void>},
        {protocol::message_name_v<msg::part_query>, &stage::ask<msg::part_query, msg::part_state>},
        {protocol::message_name_v<msg::part_state>, &stage::answer<msg::part_state>},
        {protocol::message_name_v<msg::rows>, &stage::answer<msg::rows>},
        {protocol::message_name_v<msg::squared_norm>, &stage::answer<msg::squared_norm>},
        {protocol::message_name_v<msg::committed>, &stage::answer<msg::committed>},
        {protocol::message_name_v<msg::reduced>, &stage::answer<msg::reduced>},
        {protocol::message_name_v<msg::returned>, &stage::answer<msg::returned>},
    };
    const std::string type = recorded_.type_name(input.type);
    if (type == protocol::message_name_v<msg::save_module>) return std::nullopt;  // it only writes files
    const auto found = all.find(type);
    if (found == all.end()) return "an actor alone cannot handle such a message again";
    return (this->*found->second)(input);
  }

  template <class Message>
  result<Message> read(const trace::event& input) {
    const auto found = contents_.find(input.id);
    if (found == contents_.end() || !protocol::is_kept(*found->second))
      return bad_input(
          "what it held is not recorded: '--trace payload' keeps it, of the actors that --trace-payload names, unless "
          "the run is killed");
    Message made;
    if (!protocol::read_content_into(*found->second, made))
      return bad_input("what is recorded of it is not what such a message holds");
    made.head.run = recorded_.run;
    made.head.step = input.step;
    made.head.sender = static_cast<std::uint32_t>(input.id >> 48);
    made.head.sequence = input.id & 0xffff'ffff'ffffULL;
    made.head.cause = input.cause;
    return made;
  }

  /// Sends a request to the actor, or a message without an answer (Answer: void).
  template <class Message, class Answer>
  std::optional<std::string> ask(const trace::event& input) {
    auto message = read<Message>(input);
    if (!message) return message.error().message;
    if constexpr (std::is_same_v<Message, msg::train>) introduce(*message);
    if constexpr (std::is_void_v<Answer>) {
      caf::anon_send(target_, std::move(*message));
    } else {
      const auto asker = static_cast<std::uint16_t>(input.id >> 48);
      system_.spawn([this, asker, message = std::move(*message)](caf::event_based_actor* self) {
        self->request(target_, caf::infinite, message)
            .then(
                [this, asker](const Answer& answer) {
                  if constexpr (requires { answer.head; }) compare(asker, answer);
                },
                [](const caf::error&) {});
      });
    }
    return std::nullopt;
  }

  /// Delivers an answer to the actor.
  template <class Message>
  std::optional<std::string> answer(const trace::event& input) {
    auto message = read<Message>(input);
    if (!message) return message.error().message;
    const auto promise = promises_.find(input.cause);
    if (promise == promises_.end()) {
      made_.difference = fmt::format("{} was an answer, but the actor has not asked for it", description_of(input));
      return std::nullopt;
    }
    owed_answer owed = std::move(promise->second);
    promises_.erase(promise);
    actors::run_in(owed.by,
                   [owed, message = std::move(*message)]() mutable { owed.promise.deliver(std::move(message)); });
    return std::nullopt;
  }

  /// Replaces the handles, which a recording does not have.
  void introduce(msg::train& order) {
    for (auto& shards : order.tables)
      for (msg::module_ref& shard : shards)
        shard.server = caf::actor_cast<msg::parameter_server_actor>(stand_in(actors::server_number(shard.rank)));
    for (msg::server_place& one : order.servers)
      one.server = caf::actor_cast<msg::parameter_server_actor>(stand_in(actors::server_number(one.rank)));
    order.group = caf::actor_cast<msg::allreduce_actor>(stand_in(order.group_number));
    order.reports = caf::actor_cast<msg::report_actor>(stand_in(actors::master_number));
  }

  /// Gives the trainer the handles of the others, which it needs in a pipeline.
  void send_peers() {
    actors::trainer_peers peers;
    const std::uint32_t first = actors::trainer_number(0, count_of("server "));
    for (std::uint32_t number = first; number < first + count_of("trainer "); ++number)
      peers.of_rank.push_back(number == actor_ ? msg::peer_actor()
                                               : caf::actor_cast<msg::peer_actor>(stand_in(number)));
    peers.senders.resize(peers.of_rank.size());
    const auto receiver = caf::actor_cast<caf::strong_actor_ptr>(target_);
    auto* const self = caf::actor_cast<actors::trainer_state::pointer>(receiver);
    actors::run_in(receiver, [self, peers] { self->state.set_peers(peers); });
  }

  // -- its output ------------------------------------------------------------------------

  template <class Message>
  auto takes(caf::event_based_actor* self, std::uint16_t number) {
    return [this, self, number](const Message& message) {
      const auto id = compare(number, message);
      auto promise = self->make_response_promise();
      if (promise.pending()) {
        if (id)
          promises_[*id] = {self->ctrl(), promise};
        else
          unanswered_.push_back(promise);  // the recording has no answer
      }
      return promise;
    };
  }

  caf::actor stand_in(std::uint32_t number) {
    caf::actor& one = stand_ins_[number];
    if (one) return one;
    one = system_.spawn([this, number](caf::event_based_actor* self) -> caf::behavior {
      const auto mine = static_cast<std::uint16_t>(number);
      return {takes<msg::lookup>(self, mine),        takes<msg::gradient>(self, mine),
              takes<msg::gradient_norm>(self, mine), takes<msg::optimizer_step>(self, mine),
              takes<msg::reduce>(self, mine),        takes<msg::progress>(self, mine),
              takes<msg::epoch_report>(self, mine),  takes<msg::evaluation>(self, mine),
              takes<msg::save_dense>(self, mine),    takes<msg::call>(self, mine),
              takes<msg::activation>(self, mine),    takes<msg::activation_gradient>(self, mine),
              takes<msg::part_outputs>(self, mine),  takes<msg::part_query>(self, mine),
              takes<msg::partial_sum>(self, mine)};
    });
    spawned_.push_back(one);
    return one;
  }

  /// Compares a message with the recorded one and returns that one's id, or nullopt.
  template <class Message>
  std::optional<std::uint64_t> compare(std::uint16_t receiver, const Message& message) {
    ++made_.sent;
    const std::string type(protocol::message_name_v<Message>);
    const auto found = sent_.find({receiver, type, message.head.step});
    const std::size_t place = come_[{receiver, type, message.head.step}]++;
    if (found == sent_.end() || place >= found->second.size()) return std::nullopt;  // not handled in the recording
    const std::uint64_t id = found->second[place];
    const auto held = contents_.find(id);
    if (held == contents_.end() || protocol::traits_v<Message>.diff == protocol::comparable::no) return id;
    ++made_.compared;
    const trace::content now = protocol::content_of(message, false);
    std::string text = analysis::compare_parts(*held->second, now, "recorded", "now");
    if (text.empty() && !has_times<Message> && held->second->fields_digest != now.fields_digest &&
        !lacks_new_fields(*held->second, message))
      text = "fields differ";
    if (!text.empty() && made_.difference.empty())
      made_.difference = fmt::format("step {}: {} to {}, recorded as {}: {}", message.head.step, type,
                                     recorded_.actor_name(receiver), recorded_.message_name(id), text);
    return id;
  }

  /// Whether the recorded message is this one without the fields that were added since.
  template <class Message>
  static bool lacks_new_fields(const trace::content& held, const Message& message) {
    if constexpr (protocol::traits_v<Message>.added == 0) return false;
    return !held.fields.empty() && protocol::content_of(message, true).fields.starts_with(held.fields);
  }

  /// If the actor ended well, it must have sent all recorded messages again.
  void find_unsent() {
    const trace::actor_state* const board = recorded_.find_actor(actor_);
    if (board == nullptr || recorded_.processes[board->process].end != trace::ending::clean) return;
    for (const auto& [key, ids] : sent_) {
      // Some depend on the time, and some answer messages that were left out.
      if (protocol::traits_by_name(key.type).diff == protocol::comparable::no ||
          key.type == protocol::message_name_v<msg::saved_module>)
        continue;
      const auto come = come_.find(key);
      const std::size_t count = come == come_.end() ? 0 : come->second;
      if (count >= ids.size()) continue;
      made_.difference = fmt::format("step {}: {} to {}, recorded as {}: it was not sent", key.step, key.type,
                                     recorded_.actor_name(key.receiver), recorded_.message_name(ids[count]));
      return;
    }
  }

  /// Fields with durations differ every time.
  template <class Message>
  static constexpr bool has_times = protocol::traits_v<Message>.diff != protocol::comparable::whole;

  const trace::recording& recorded_;
  const std::uint16_t actor_;
  one_thread config_;
  caf::actor_system system_;
  caf::actor target_;
  std::vector<caf::actor> spawned_;
  std::map<std::uint32_t, caf::actor> stand_ins_;
  std::unordered_map<std::uint64_t, const trace::content*> contents_;
  std::vector<const trace::event*> inputs_;
  std::map<sent_key, std::vector<std::uint64_t>> sent_;
  std::map<sent_key, std::size_t> come_;
  std::vector<caf::response_promise> unanswered_;
  std::map<std::uint64_t, owed_answer> promises_;  ///< by the recorded request
  bool ended_ = false;
  actor_replay_result made_;
};

}  // namespace

result<actor_replay_result> replay_actor(const trace::recording& from, std::uint16_t actor,
                                         const std::function<void(std::uint64_t, const std::string&)>& before) {
  const actors::device_request devices = devices_in(from);
  if (devices.trainers == actors::device_request::kind::cuda || devices.servers == actors::device_request::kind::cuda)
    return bad_input("the run was on CUDA devices: only the whole of it can be replayed, without --actor");
  return stage(from, actor).play(before);
}

}  // namespace troupe::replay
