// Messages arrive over CAF's network as they were sent: every type, any size, and every error with its code and text.

#include <limits>

#include "tests/nodes/two_nodes.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::nodes::two_nodes_messages_test {
namespace {

class TwoNodesMessages : public TwoNodes {
 protected:
  using bytes = caf::binary_serializer::container_type;

  TwoNodesMessages() {
    mirror_ = across(there_.spawn([this](caf::event_based_actor* self) -> caf::behavior {
      self->set_default_handler([this](caf::scheduled_actor* me, caf::message& content) {
        arrived_ = content;
        me->current_sender()->enqueue(me->ctrl(), caf::make_message_id(), content, nullptr);
        return caf::message();
      });
      return {[](caf::unit_t) {}};
    }));
    sender_ = here_.spawn([this](caf::event_based_actor* self) -> caf::behavior {
      self->set_default_handler([this](caf::scheduled_actor*, caf::message& content) {
        came_back_ = content;
        return caf::message();
      });
      return {[](caf::unit_t) {}};
    });
  }

  /// Sends `content` to the other process and back.
  void there_and_back(const caf::message& content) {
    arrived_ = came_back_ = caf::message();
    mirror_->enqueue(caf::actor_cast<caf::strong_actor_ptr>(sender_), caf::make_message_id(), content, nullptr);
    run();
  }

  static bytes bytes_of(actors::staged_system& where, const caf::message& content) {
    bytes out;
    caf::binary_serializer sink(where.system(), out);
    EXPECT_TRUE(sink.apply(content));
    return out;
  }

  /// Sends a tensor to the other process and back.
  msg::tensor back(const msg::tensor& sent) {
    there_and_back(caf::make_message(sent));
    EXPECT_TRUE(came_back_.match_elements<msg::tensor>());
    return came_back_.match_elements<msg::tensor>() ? came_back_.get_as<msg::tensor>(0) : msg::tensor();
  }

  caf::actor mirror_;  ///< in the other process; its handle here
  caf::actor sender_;
  caf::message arrived_;
  caf::message came_back_;
};

TEST_F(TwoNodesMessages, EveryTypeOfTheProtocolCrossesToTheOtherNodeAndBack) {
  const auto all = protocol::samples_of_all_types([this](auto behavior) { return here_.spawn(behavior); });
  for (caf::type_id_t id = caf::id_block::troupe::begin; id < caf::id_block::troupe::end; ++id) {
    const auto sample = all.find(id);
    ASSERT_NE(sample, all.end()) << "no sample of message type " << caf::query_type_name(id);
    if (id == caf::type_id_v<protocol::errc>) continue;  // travels as an error: see the tests of errors
    const bytes sent = bytes_of(here_, sample->second);
    there_and_back(sample->second);
    EXPECT_EQ(caf::to_string(arrived_), caf::to_string(sample->second));
    EXPECT_EQ(bytes_of(there_, arrived_), sent) << caf::query_type_name(id);
    EXPECT_EQ(bytes_of(here_, came_back_), sent) << caf::query_type_name(id);
  }
}

TEST_F(TwoNodesMessages, AnActorThatAMessageNamesCanBeReachedFromTheOtherNode) {
  const auto server = here_.spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const msg::parameters& asked) {
      return msg::parameter_list{asked.head, {{"weight", dtype::f16, 3, 4}}};
    }};
  });
  const auto handle = caf::actor_cast<msg::parameter_server_actor>(server);
  there_and_back(caf::make_message(msg::module_ref{protocol::some_header(), handle, 4, 1, 3, 2}));
  EXPECT_EQ(came_back_.get_as<msg::module_ref>(0).server, handle);
  const auto answer = there_.ask<msg::parameter_list>(arrived_.get_as<msg::module_ref>(0).server,
                                                      msg::parameters{protocol::some_header(), 4});
  run();
  ASSERT_TRUE(answer->value) << protocol::describe(answer->error);
  EXPECT_EQ(answer->value->head.sequence, protocol::some_header().sequence);
  ASSERT_EQ(answer->value->items.size(), 1u);
  EXPECT_EQ(answer->value->items[0].type, dtype::f16);
  EXPECT_EQ(answer->value->items[0].cols, 4u);
}

TEST_F(TwoNodesMessages, TensorsWithoutRowsOrColumnsKeepTheirShape) {
  for (const auto& [rows, cols] : {std::pair<std::uint64_t, std::uint64_t>{0, 0}, {0, 3}, {3, 0}}) {
    const msg::tensor same = back(msg::tensor(dtype::i64, rows, cols, msg::blob()));
    EXPECT_EQ(same.type, dtype::i64);
    EXPECT_EQ(same.rows, rows);
    EXPECT_EQ(same.cols, cols);
    EXPECT_TRUE(same.bytes.empty());
  }
}

TEST_F(TwoNodesMessages, NumbersThatAreHardToCarryKeepTheirBits) {
  using limits = std::numeric_limits<float>;
  const msg::tensor sent =
      msg::tensor::own(4, 2,
                       std::vector<float>{-0.0F, limits::denorm_min(), -1e-39F, limits::min(), limits::max(),
                                          -limits::infinity(), limits::quiet_NaN(), limits::signaling_NaN()});
  EXPECT_TRUE(back(sent).bytes == sent.bytes);
}

TEST_F(TwoNodesMessages, AMessageOf24MebibytesAndOneOf20000PartsArriveWhole) {
  std::vector<std::uint64_t> numbers(3 << 20);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = model::mix(i);
  const msg::tensor large = msg::tensor::own(3, 1 << 20, std::move(numbers));
  EXPECT_TRUE(back(large).bytes == large.bytes);

  msg::rows many{protocol::some_header(), {}, 1};
  for (std::size_t i = 0; i < 20'000; ++i)
    many.tables.push_back(msg::tensor::own(i % 3, 1, std::vector<float>(i % 3, static_cast<float>(i))));
  there_and_back(caf::make_message(many));
  ASSERT_TRUE(came_back_.match_elements<msg::rows>());
  const auto& same = came_back_.get_as<msg::rows>(0).tables;
  ASSERT_EQ(same.size(), many.tables.size());
  for (std::size_t i = 0; i < same.size(); ++i) ASSERT_TRUE(same[i].bytes == many.tables[i].bytes) << i;
}

TEST_F(TwoNodesMessages, EveryRefusalArrivesWithItsCodeAndItsWords) {
  const auto refuses = across(there_.spawn([](caf::event_based_actor*) -> caf::behavior {
    return {[](const msg::give_up& asked) -> caf::result<msg::committed> {
      return protocol::make_failure(static_cast<protocol::errc>(asked.head.step), asked.words);
    }};
  }));
  for (const std::string& text :
       {std::string(), std::string("table 2: \"käse\"\n{} of 5 % is\tno row"), std::string(100'000, 'x')}) {
    for (std::uint8_t code = 1; code <= static_cast<std::uint8_t>(protocol::errc::malformed); ++code) {
      const auto answer = here_.ask<msg::committed>(refuses, msg::give_up{{1, code, 9, 0, 1, 0}, text});
      run();
      EXPECT_EQ(answer->error, static_cast<protocol::errc>(code));
      EXPECT_EQ(protocol::describe(answer->error), text);
      EXPECT_EQ(protocol::is_secondary(answer->error),
                static_cast<protocol::errc>(code) == protocol::errc::peer_failed);
    }
  }
}

TEST_F(TwoNodesMessages, WhyAnActorHasEndedIsToldToWhoWatchesItFromTheOtherNode) {
  const auto ends = across(there_.spawn([](caf::event_based_actor* self) -> caf::behavior {
    return {[self](const msg::give_up& order) {
      self->quit(protocol::make_failure(protocol::errc::not_finite, order.words));
    }};
  }));
  const auto reason = here_.watch(ends);
  run();
  EXPECT_FALSE(*reason);
  caf::anon_send(ends, msg::give_up{protocol::some_header(), "row 5 is NaN"});
  run();
  ASSERT_TRUE(*reason);
  EXPECT_EQ(**reason, protocol::errc::not_finite);
  EXPECT_EQ(protocol::describe(**reason), "row 5 is NaN");
}

// CAF drops what it cannot read, so the request ends only at its deadline.
TEST_F(TwoNodesMessages, ARequestThatCannotBeReadFailsAtItsDeadlineAndTheConnectionLivesOn) {
  const auto counts = across(there_.spawn(
      [](caf::event_based_actor*) -> caf::behavior { return {[](const msg::tensor& one) { return one.rows; }}; }));
  msg::tensor wrong = protocol::some_tensor();
  wrong.rows = 5;
  const auto refused = here_.ask<std::uint64_t>(counts, wrong, std::chrono::seconds(7));
  run();
  here_.scheduler().advance_time(std::chrono::seconds(6));
  run();
  EXPECT_TRUE(refused->pending());
  here_.scheduler().advance_time(std::chrono::seconds(1));
  run();
  EXPECT_EQ(refused->error, caf::sec::request_timeout);

  const auto answered = here_.ask<std::uint64_t>(counts, protocol::some_tensor());
  run();
  EXPECT_EQ(answered->value, 2u);
}

}  // namespace
}  // namespace troupe::nodes::two_nodes_messages_test
