// A stage for the master's parts: they belong to an actor with a master's interface but none of its behavior. The test
// calls them as that actor, and decides what follows.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/common/actor_name.hpp"
#include "actors/common/actor_trace.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/master/checkpointing.hpp"
#include "actors/master/final_weights.hpp"
#include "actors/master/membership.hpp"
#include "actors/master/open_requests.hpp"
#include "actors/master/run_figures.hpp"
#include "actors/master/run_plan.hpp"
#include "actors/master/table_setup.hpp"
#include "actors/server/parameter_server.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::actors {

struct master_parts {
  explicit master_parts(msg::master_actor::pointer self) : requests(self, trace, members) {}

  actor_trace trace;
  membership members;
  open_requests requests;
  run_figures figures;
  table_setup tables{requests, trace};
  checkpointing checkpoints{requests, trace};
  final_weights weights{requests, trace};
};

/// Rows that are not trained on, and tables whose initial element (row, column) of table t is 1000 t + 10 row + column.
class given_tables : public model::dataset {
 public:
  explicit given_tables(std::vector<model::table_spec> tables, bool with_weights = true) : with_weights_(with_weights) {
    spec_.tables = std::move(tables);
    spec_.dense_features = 3;
  }

  const model::data_spec& spec() const override { return spec_; }
  model::epoch_plan epochs() const override { return model::epoch_plan(4); }
  result<model::batch> train_batch(std::uint64_t, std::uint32_t) const override { return model::batch{}; }

  std::optional<model::initial_weights> start() const override {
    if (!with_weights_) return std::nullopt;
    model::initial_weights given;
    for (std::size_t t = 0; t < spec_.tables.size(); ++t) {
      auto& table = given.tables.emplace_back();
      for (std::int64_t row = 0; row < spec_.tables[t].rows; ++row)
        for (std::size_t column = 0; column < spec_.tables[t].dim; ++column)
          table.push_back(static_cast<float>(1000 * t + 10 * static_cast<std::size_t>(row) + column));
    }
    return given;
  }

 private:
  model::data_spec spec_;
  bool with_weights_;
};

class master_parts_stage : public stage {
 protected:
  using host_pointer = msg::master_actor::stateful_pointer<master_parts>;

  master_parts_stage() {
    master_ = spawn([this](host_pointer self) -> msg::master_actor::behavior_type {
      parts_ = &self->state;
      self->state.trace.start(self, self->system(), 1, master_number, "master");
      self->state.requests.start(
          [this](const caf::error& error, const caf::actor_addr& receiver, caf::string_view type) {
            complaints_.push_back({error, receiver, std::string(type.begin(), type.end())});
          });
      return {[](const msg::join_server&) { return msg::joined{}; },
              [](const msg::join_trainer&) { return msg::joined{}; },
              [](const troupe::msg::run&) { return msg::run_result{}; },
              [](const msg::status&) { return msg::run_status{}; },
              [](const msg::stop&) {},
              [](const msg::scale&) {},
              [](const msg::progress&) {},
              [](const msg::epoch_report&) {},
              [](const msg::evaluation&) {},
              [self](msg::save_dense& share) -> caf::result<msg::committed> {
                auto proceed = self->make_response_promise<msg::committed>();
                if (auto error = self->state.checkpoints.add(std::move(share), proceed)) proceed.deliver(error);
                return proceed;
              },
              [](const msg::join_node&) { return msg::admitted{}; },
              [](const msg::node_lost&) {},
              [](const msg::link_lost&) {},
              [](const msg::give_up&) {},
              [](const msg::trouble&) {},
              [](const msg::collect_evidence&) { return msg::collected_evidence{}; },
              [](const msg::verdict_found&) {}};
    });
    run();
  }

  static model::job job_for(std::uint32_t servers, std::uint32_t trainers) {
    model::job made = model::parse_job({}).value();
    made.servers = servers;
    made.trainers = trainers;
    return made;
  }

  /// Plans a run with these tables and these numbers of servers and trainers, and spawns its servers.
  void plan(std::vector<model::table_spec> tables, std::uint32_t servers, std::uint32_t trainers,
            bool with_weights = true) {
    data_ = std::make_shared<given_tables>(std::move(tables), with_weights);
    plan_ = parts_of(job_for(servers, trainers), data_);
    plan_.total_steps = 8;
    servers_.clear();
    for (std::uint32_t rank = 0; rank < plan_.servers; ++rank)
      servers_.push_back(spawn(parameter_server, std::uint64_t{1}, rank));
  }

  /// Runs `what` as the parts' actor once all messages are handled; the messages it sends are not handled yet.
  void as_master(std::function<void(master_parts&)> what) {
    run();
    run_in(caf::actor_cast<caf::strong_actor_ptr>(master_), [this, what = std::move(what)] { what(*parts_); });
    scheduler().run_once();
  }

  /// An actor that does nothing.
  template <class Handle>
  Handle dummy() {
    return caf::actor_cast<Handle>(spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; }));
  }

  /// The header of a message of the run.
  msg::header head(std::uint64_t step) { return headers_.next(step, 0); }

  struct complaint {
    caf::error error;
    caf::actor_addr receiver;
    std::string type;
  };

  std::shared_ptr<const model::dataset> data_;
  run_plan plan_;
  std::vector<msg::parameter_server_actor> servers_;
  std::vector<complaint> complaints_;
  msg::master_actor master_;
  master_parts* parts_ = nullptr;

 private:
  msg::header_source headers_{1, client_number};
};

}  // namespace troupe::actors
