// Two processes in one: two actor systems, CAF's network layer as nodes load it, and a connection in memory. Messages
// between their actors cross it as bytes, as in a control tunnel. The test's thread carries the bytes and handles all
// messages, one at a time.

#pragma once

#include <caf/io/all.hpp>
#include <caf/io/network/operation.hpp>
#include <caf/io/network/test_multiplexer.hpp>
#include <utility>

#include "cluster/nodes/caf_network.hpp"
#include "tests/actors/stage.hpp"

namespace troupe::nodes {

class TwoNodes : public testing::Test {
 protected:
  TwoNodes() {
    porter_there_ = there_.spawn([this](caf::event_based_actor*) -> caf::behavior {
      return {[this](caf::get_atom) { return guest_; }, [this](caf::actor& guest) { guest_ = std::move(guest); }};
    });
    connect();
  }

  ~TwoNodes() override {
    for (actors::staged_system* one : {&here_, &there_}) {
      one->dismiss();
      // CAF keeps actors that were named in a message to the other process alive until that process ends.
      for (caf::actor_id id = 1; id <= one->system().latest_actor_id(); ++id)
        caf::anon_send_exit(one->system().registry().get(id), caf::exit_reason::kill);
    }
    run();
  }

  /// Connects both; reconnects if their connection was cut.
  void connect() {
    end_ = caf::io::connection_handle::from_int(end_.id() + 1);
    network_of(there_).prepare_connection(caf::io::accept_handle::from_int(1), end_, network_of(here_), "", 1, end_);
    offer_actor(there_.system(), network_of(there_).new_scribe(end_),
                caf::actor_cast<caf::strong_actor_ptr>(porter_there_), {});
    porter_ = nullptr;
    ask_for_actor(here_.system(), network_of(here_).new_scribe(end_),
                  [this](const caf::expected<caf::strong_actor_ptr>& found) {
                    if (found) porter_ = caf::actor_cast<caf::actor>(*found);
                  });
    run();
    EXPECT_TRUE(porter_) << "they have not found each other";
  }

  /// Returns whether the actor is in the other process.
  template <class Handle>
  bool is_there(const Handle& receiver) {
    return receiver.node() == there_.system().node();
  }

  /// Handles all messages of both in order, or the next `most`; returns how many.
  std::size_t run(std::size_t most = SIZE_MAX) {
    const auto turn = [](actors::staged_system& which) {
      return which.scheduler().try_run_once() || network_of(which).try_run_once();
    };
    std::size_t turns = 0;
    while (turns < most && (turn(here_) || turn(there_))) ++turns;
    return turns;
  }

  /// Handles all messages in an order drawn from a seed, which chooses the process, and then whether one of its actors
  /// or the network handles a message.
  void run_shuffled(std::uint64_t seed) {
    model::random_sequence random(model::mix(seed));
    const auto turn = [&random](actors::staged_system& which) {
      const bool network_first = random.below(2) == 0;
      return (network_first && network_of(which).try_run_once()) || which.run_any(random) ||
             network_of(which).try_run_once();
    };
    for (bool busy = true; busy;) {
      auto& first = random.below(2) == 0 ? here_ : there_;
      busy = turn(first) || turn(&first == &here_ ? there_ : here_);
    }
  }

  /// Returns the other process's handle of an actor.
  template <class Handle>
  Handle across(const Handle& receiver) {
    const auto guest = caf::actor_cast<caf::actor>(receiver);
    if (!is_there(receiver)) {
      caf::anon_send(porter_, guest);
      run();
      return caf::actor_cast<Handle>(std::exchange(guest_, nullptr));
    }
    guest_ = guest;
    const auto answer = here_.ask<caf::actor>(porter_, caf::get_atom_v);
    run();
    guest_ = nullptr;
    return caf::actor_cast<Handle>(answer->value.value());
  }

  /// Cuts the connection and drops the bytes in flight. Both sides notice.
  void cut() {
    for (actors::staged_system* one : {&here_, &there_}) {
      auto& network = network_of(*one);
      network.virtual_network_buffer(end_).clear();
      network.impl_ptr(end_)->io_failure(&network, caf::io::network::operation::read);
    }
  }

  actors::staged_system here_{in_memory_network};
  actors::staged_system there_{in_memory_network};

 private:
  static void in_memory_network(caf::actor_system_config& config) {
    add_network(config);
    config.set("caf.middleman.network-backend", "testing");
  }

  static caf::io::network::test_multiplexer& network_of(actors::staged_system& which) {
    return dynamic_cast<caf::io::network::test_multiplexer&>(which.system().middleman().backend());
  }

  caf::io::connection_handle end_ = caf::io::connection_handle::from_int(0);  ///< the same number on both sides
  caf::actor porter_there_;                                                   ///< sends and receives handles
  caf::actor porter_;                                                         ///< its handle here
  caf::actor guest_;  ///< the actor that is sent or was received
};

}  // namespace troupe::nodes
