// A data link between two sets of actors in this process: answers, failures, timeouts, credit, and requests whose peer
// is gone or sends malformed frames.

#include "nodes/data_link.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <caf/all.hpp>
#include <future>

#include "links/connect.hpp"
#include "links/io_thread.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes::data_link_test {
namespace {

constexpr std::uint32_t number = 5;
constexpr auto timeout = std::chrono::seconds(60);  // for a broken build, not to be reached

/// The handlers of the test's server.
struct handlers {
  std::function<caf::result<msg::rows>(msg::parameter_server_actor::pointer, msg::lookup&)> on_lookup;
  std::function<void(msg::gradient&)> on_gradient;
};

msg::parameter_server_actor::behavior_type server(msg::parameter_server_actor::pointer self, handlers what) {
  return {[](msg::instantiate&) { return msg::module_ref{}; },
          [self, what](msg::lookup& asked) { return what.on_lookup(self, asked); },
          [what](msg::gradient& sent) { what.on_gradient(sent); },
          [](msg::gradient_norm&) { return msg::squared_norm{}; },
          [](msg::optimizer_step&) { return msg::committed{}; },
          [](msg::parameters&) { return msg::parameter_list{}; },
          [](msg::state_dict&) { return msg::module_state{}; },
          [](msg::load_state_dict&) { return msg::committed{}; },
          [](msg::row_digests&) { return msg::tensor{}; },
          [](msg::save_module&) { return msg::saved_module{}; },
          [](msg::restore_module&) { return msg::committed{}; },
          [](msg::release&) {},
          [](msg::set_optimizer&) {},
          [](msg::call&) { return msg::returned{}; },
          [](msg::actor_query&) { return msg::actor_status{}; }};
}

caf::result<msg::rows> five_rows(msg::parameter_server_actor::pointer, msg::lookup& asked) {
  return msg::rows{asked.head, {msg::tensor::own(5, 1, std::vector<float>{1, 2, 3, 4, 5})}, asked.staleness};
}

/// State that outlives the links.
template <class T>
std::shared_ptr<T> shared(T& what) {
  return {std::shared_ptr<void>(), &what};
}

class DataLink : public testing::Test {
 protected:
  ~DataLink() override {
    if (here_) here_->close();
    if (there_) there_->close();
    thread_.stop();
    actors_there_.clear();
    for (const auto& one : spawned_) caf::anon_send_exit(one, caf::exit_reason::kill);
  }

  /// Handles lookups without answering them.
  static auto never() {
    // The actor keeps its promises: it may be at work while the test's object goes.
    auto unanswered = std::make_shared<std::vector<caf::typed_response_promise<msg::rows>>>();
    return [unanswered](msg::parameter_server_actor::pointer self, msg::lookup&) -> caf::result<msg::rows> {
      unanswered->push_back(self->make_response_promise<msg::rows>());
      return unanswered->back();
    };
  }

  /// Runs `work` on the links' thread and waits for it.
  void on_thread(const std::function<void()>& work) {
    std::promise<void> done;
    boost::asio::post(thread_.io(), [&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }

  /// Returns both ends of a link over TCP.
  std::pair<links::link_ptr, links::link_ptr> make_wires() {
    std::unique_ptr<links::listener> listening;
    std::promise<links::link_ptr> accepted;
    std::promise<links::link_ptr> connected;
    const links::credentials mine{"a token that tests share", nullptr};
    on_thread([&] {
      auto opened =
          links::listener::open(thread_.io(), {"127.0.0.1", 0}, mine, {}, {},
                                {.on_hello = [](const links::hello&, auto&&...) { return links::hello(); },
                                 .on_link = [&](links::link_ptr wire) { accepted.set_value(std::move(wire)); },
                                 .on_rejected = [](const links::endpoint&, const fault&) {}});
      ASSERT_TRUE(opened) << opened.error().message;
      listening = std::move(*opened);
      links::connect(thread_.io(), listening->address(), mine, {}, {}, {},
                     [&](result<links::link_ptr> wire) { connected.set_value(wire ? *wire : nullptr); });
    });
    auto pair = std::pair(connected.get_future().get(), accepted.get_future().get());
    on_thread([&] { listening.reset(); });
    return pair;
  }

  /// Links a server with those handlers; returns its proxy.
  msg::parameter_server_actor link_to(handlers what, std::uint64_t window = std::uint64_t{1} << 20) {
    actor_there_ = system_.spawn(server, std::move(what));
    spawned_.push_back(caf::actor_cast<caf::actor>(actor_there_));
    actors_there_.add(number, caf::actor_cast<caf::strong_actor_ptr>(actor_there_));
    const auto [near, far] = make_wires();
    start_here(near, window);
    there_ = std::make_shared<data_link>(
        system_, far, shared(unit_), shared(actors_there_),
        data_link::options{.peer = "trainer 1", .window_bytes = window, .message_bytes_max = message_bytes_max_});
    there_->start([](const std::string&) {});
    return here_->proxy<msg::parameter_server_actor>(number);
  }

  void start_here(const links::link_ptr& wire, std::uint64_t window) {
    here_ = std::make_shared<data_link>(system_, wire, shared(unit_), shared(actors_here_),
                                        data_link::options{.peer = "server 0",
                                                           .window_bytes = window,
                                                           .request_timeout = std::chrono::seconds(7),
                                                           .message_bytes_max = message_bytes_max_});
    here_->start([this](const std::string& why) { lost_.set_value(why); });
  }

  /// Sends bytes that no data link sends; returns the reason for the link's end.
  std::string word_about(std::uint8_t kind, const std::vector<msg::blob>& parts) {
    const auto [near, far] = make_wires();
    start_here(near, 1 << 20);
    far->start({[](links::received_frame&&) {}, [](const fault*) {}});
    std::vector<links::piece> pieces;
    for (const msg::blob& part : parts) pieces.push_back({part.owner(), part.data(), part.size()});
    far->send(kind, std::move(pieces));
    return word_of_loss();
  }

  std::string word_of_loss() {
    auto word = lost_.get_future();
    if (word.wait_for(timeout) == std::future_status::ready) return word.get();
    ADD_FAILURE() << "the link lives on";
    return {};
  }

  static msg::lookup ask_rows(std::uint64_t step) {
    return {{1, step, 9, 0, 1, 0}, {{4, {}, {}, {}}}, 3, msg::dtype::f32};
  }

  static msg::gradient some_gradient(std::uint64_t step, std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    return {
        {1, step, 9, 0, 1, 0}, 0, true, true, {{4, {}, {}, {}, msg::tensor::own(count, 1, std::vector<float>(count))}}};
  }

  /// Returns the error that answers a request.
  caf::error failure_of(const msg::parameter_server_actor& whom, std::uint64_t step) {
    return failure_of(whom, ask_rows(step));
  }
  caf::error failure_of(const msg::parameter_server_actor& whom, const msg::lookup& question) {
    caf::error found;
    self_->request(whom, timeout, question)
        .receive([](const msg::rows&) { ADD_FAILURE() << "an answer"; },
                 [&](const caf::error& error) { found = error; });
    return found;
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
  links::io_thread thread_;
  actors::inline_execution unit_{&system_};
  actor_directory actors_here_;
  actor_directory actors_there_;
  msg::parameter_server_actor actor_there_;
  std::vector<caf::actor> spawned_;
  std::uint64_t message_bytes_max_ = links::link_limits{}.frame_bytes_max;
  data_link_ptr here_;
  data_link_ptr there_;
  std::promise<std::string> lost_;
};

TEST_F(DataLink, ALookupIsAnsweredThroughIt) {
  const auto whom = link_to({five_rows, nullptr});
  for (std::uint64_t step = 1; step <= 3; ++step) {
    msg::rows found;
    self_->request(whom, timeout, ask_rows(step))
        .receive([&](msg::rows& answer) { found = std::move(answer); },
                 [](const caf::error& error) { FAIL() << protocol::describe(error); });
    EXPECT_EQ(found.head.step, step);
    EXPECT_EQ(found.missing, 3u);
    ASSERT_EQ(found.tables.size(), 1u);
    EXPECT_EQ(found.tables[0].as<float>()[4], 5.0F);
    EXPECT_EQ(here_->newest_step(), step);
    EXPECT_EQ(there_->newest_step(), step);
  }
}

/// By itself, a gradient with its bags would be too long for this link.
TEST_F(DataLink, AGradientTravelsWithoutTheBagsOfItsLookup) {
  message_bytes_max_ = 3000;
  std::promise<msg::gradient> arrived;
  const auto whom = link_to({five_rows, [&](msg::gradient& sent) { arrived.set_value(std::move(sent)); }});
  msg::lookup question = ask_rows(12);
  question.tables[0].indices = msg::blob::own(std::vector<std::int64_t>(300, 7));
  self_->request(whom, timeout, question)
      .receive([](const msg::rows&) {}, [](const caf::error& error) { FAIL() << protocol::describe(error); });
  msg::gradient sent = some_gradient(12, 1200);
  sent.tables[0].indices = question.tables[0].indices;
  self_->send(whom, sent);
  auto found = arrived.get_future();
  ASSERT_EQ(found.wait_for(timeout), std::future_status::ready);
  const msg::bag_gradient there = found.get().tables[0];
  EXPECT_EQ(there.indices, question.tables[0].indices);
  EXPECT_EQ(there.grad.as<float>().size(), 300u);
}

TEST_F(DataLink, ARefusalComesBackWithItsWords) {
  const auto whom = link_to({[](msg::parameter_server_actor::pointer, msg::lookup&) -> caf::result<msg::rows> {
                               return protocol::make_failure(protocol::errc::bad_index, "index 7 of table 2");
                             },
                             nullptr});
  const caf::error error = failure_of(whom, 1);
  EXPECT_EQ(error, protocol::errc::bad_index);
  EXPECT_EQ(protocol::describe(error), "index 7 of table 2");
}

TEST_F(DataLink, WhatNoDataLinkCarriesIsRefusedHere) {
  const auto whom = link_to({five_rows, nullptr});
  caf::error found;
  self_->request(whom, timeout, msg::parameters{})
      .receive([](const msg::parameter_list&) { ADD_FAILURE() << "an answer"; },
               [&](const caf::error& error) { found = error; });
  EXPECT_EQ(found, protocol::errc::bad_input);
}

TEST_F(DataLink, ARequestThatStaysUnansweredFailsNamingWhoWhatAndWhen) {
  const auto whom = link_to({never(), nullptr});
  const auto asked = self_->request(whom, caf::infinite, ask_rows(12));
  (void)asked;
  here_->expire(data_link::clock::now());
  caf::error found;
  auto answer = self_->request(whom, caf::infinite, ask_rows(13));
  here_->expire(data_link::clock::now() + std::chrono::seconds(8));
  answer.receive([](const msg::rows&) { ADD_FAILURE() << "an answer"; },
                 [&](const caf::error& error) { found = error; });
  EXPECT_EQ(found, protocol::errc::timeout);
  EXPECT_EQ(protocol::describe(found),
            "server 0 did not answer lookup of step 13 within 7 s; --request-timeout allows more");
}

TEST_F(DataLink, RequestsThatWaitFailWhenTheLinkIsLost) {
  std::promise<void> came;
  const auto whom = link_to({[&, leave = never()](msg::parameter_server_actor::pointer self, msg::lookup& asked) {
                               came.set_value();
                               return leave(self, asked);
                             },
                             nullptr});
  auto answer = self_->request(whom, caf::infinite, ask_rows(12));
  came.get_future().get();
  there_->close();
  EXPECT_EQ(word_of_loss(), "it has ended");
  caf::error found;
  answer.receive([](const msg::rows&) { ADD_FAILURE() << "an answer"; },
                 [&](const caf::error& error) { found = error; });
  EXPECT_EQ(found, protocol::errc::peer_failed);
  EXPECT_EQ(protocol::describe(found), "server 0 is gone: it has ended; lookup of step 12 is unanswered");
  EXPECT_EQ(protocol::describe(failure_of(whom, 13)),
            "server 0 is gone: it has ended; lookup of step 13 cannot be asked");
}

TEST_F(DataLink, AnActorOfALinkThatWasLetGoIsGone) {
  const auto whom = link_to({five_rows, nullptr});
  here_->close();
  here_.reset();
  EXPECT_NE(protocol::describe(failure_of(whom, 1)), "");
}

// The receiver handles nothing until it may; until then at most one window is in flight.
TEST_F(DataLink, ASlowReceiverHoldsTheSenderBackAtTheWindow) {
  constexpr std::uint64_t window = 64 << 10;
  constexpr std::size_t each = 8 << 10;
  constexpr std::size_t count = 40;
  std::promise<void> go_on;
  auto allowed = go_on.get_future().share();
  std::promise<void> all_came;
  std::vector<std::uint64_t> steps;
  const auto whom = link_to({five_rows,
                             [&](msg::gradient& one) {
                               allowed.wait();
                               if (one.head.step == 0) return;  // the test's own, to keep the actor busy
                               steps.push_back(one.head.step);
                               if (steps.size() == count) all_came.set_value();
                             }},
                            window);
  caf::anon_send(actor_there_, some_gradient(0, 4));
  for (std::uint64_t step = 1; step <= count; ++step) caf::anon_send(whom, some_gradient(step, each));
  // Frames are slightly longer than their numbers.
  EXPECT_EQ(here_->waiting_for_credit(), count - window / each + 1);
  go_on.set_value();
  ASSERT_EQ(all_came.get_future().wait_for(timeout), std::future_status::ready);
  EXPECT_EQ(here_->waiting_for_credit(), 0u);
  for (std::uint64_t step = 1; step <= count; ++step) EXPECT_EQ(steps[step - 1], step);
}

TEST_F(DataLink, AMessageLongerThanTheWindowGoesAllTheSame) {
  std::promise<std::size_t> came;
  const auto whom =
      link_to({five_rows, [&](msg::gradient& one) { came.set_value(one.tables[0].grad.bytes.size()); }}, 1024);
  caf::anon_send(whom, some_gradient(1, 1 << 20));
  auto size = came.get_future();
  ASSERT_EQ(size.wait_for(timeout), std::future_status::ready);
  EXPECT_EQ(size.get(), std::size_t{1} << 20);
}

// -- messages beyond the limit ------------------------------------------------------

void expect_too_long(const caf::error& error, const std::string& what) {
  EXPECT_EQ(error, protocol::errc::bad_input) << protocol::describe(error);
  const std::string words = protocol::describe(error);
  EXPECT_EQ(words.find(what + " has "), 0u) << words;
  EXPECT_NE(words.find(" bytes, the limit is 1000; try a smaller --batch-size"), std::string::npos) << words;
}

TEST_F(DataLink, ARequestThatIsTooLongIsRefusedAndTheLinkGoesOn) {
  message_bytes_max_ = 1000;
  const auto whom = link_to({five_rows, nullptr});
  msg::lookup many = ask_rows(12);
  many.tables[0].indices = msg::blob::own(std::vector<std::int64_t>(200));
  expect_too_long(failure_of(whom, many), "lookup of step 12 for server 0");
  self_->request(whom, timeout, ask_rows(13))
      .receive([](const msg::rows&) {}, [](const caf::error& error) { FAIL() << protocol::describe(error); });
}

TEST_F(DataLink, AnAnswerThatIsTooLongFailsAtWhoAsked) {
  message_bytes_max_ = 1000;
  const auto many_rows = [](msg::parameter_server_actor::pointer, msg::lookup& asked) -> caf::result<msg::rows> {
    return msg::rows{asked.head, {msg::tensor::own(500, 1, std::vector<float>(500))}, 0};
  };
  const auto whom = link_to({many_rows, nullptr});
  expect_too_long(failure_of(whom, 12), "rows of step 12 for trainer 1");
  expect_too_long(failure_of(whom, 13), "rows of step 13 for trainer 1");
}

// Nobody waits for an answer to a gradient.
TEST_F(DataLink, WhoSendsWhatIsTooLongEndsWithTheReason) {
  message_bytes_max_ = 1000;
  const auto whom = link_to({five_rows, [](msg::gradient&) { ADD_FAILURE() << "it came"; }});
  const auto sender = system_.spawn([whom](caf::event_based_actor* self) -> caf::behavior {
    self->send(whom, some_gradient(12, 4000));
    return {[](int) {}};
  });
  self_->monitor(sender);
  self_->receive([](const caf::down_msg& down) { expect_too_long(down.reason, "gradient of step 12 for server 0"); });
}

// -- what is no message ---------------------------------------------------------------

TEST_F(DataLink, WhatIsNoMessageEndsTheLinkWithTheReason) {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string word = word_about(links::link::first_user_kind, {msg::blob::own(std::string("no message at all"))});
  EXPECT_TRUE(has(word, "it sent ") && has(word, "a frame that is no message")) << word;
}

TEST_F(DataLink, AMessageForNobodyEndsTheLinkWithTheReason) {
  const auto parts = protocol::to_frame({1, 99}, caf::make_message(msg::committed{}));
  EXPECT_EQ(word_about(links::link::first_user_kind, *parts), "it sent a message for actor 99, who is not here");
}

// CAF uses the higher bits of a message's id, and so does the link.
TEST_F(DataLink, ARequestOfNoPossibleNumberEndsTheLinkWithTheReason) {
  actor_there_ = system_.spawn(server, handlers{five_rows, nullptr});
  spawned_.push_back(caf::actor_cast<caf::actor>(actor_there_));
  actors_here_.add(number, caf::actor_cast<caf::strong_actor_ptr>(actor_there_));
  constexpr std::uint64_t ours = (std::uint64_t{1} << 59) + 1;
  const auto parts = protocol::to_frame({ours, number}, caf::make_message(ask_rows(1)));
  EXPECT_EQ(word_about(links::link::first_user_kind, *parts), fmt::format("it sent a request of number {}", ours));
}

TEST_F(DataLink, CreditForNothingEndsTheLinkWithTheReason) {
  EXPECT_EQ(word_about(links::link::first_user_kind + 3, {msg::blob::own(std::vector<std::uint64_t>{5})}),
            "it sent a credit of 5 bytes, 0 are under way");
}

TEST_F(DataLink, AFrameOfAnotherKindEndsTheLinkWithTheReason) {
  EXPECT_EQ(word_about(77, {}), "it sent a frame of kind 77");
}

TEST_F(DataLink, AnAnswerToNothingIsIgnored) {
  const auto [near, far] = make_wires();
  start_here(near, 1 << 20);
  far->start({[](links::received_frame&&) {}, [](const fault*) {}});
  std::vector<links::piece> pieces;
  const auto parts = protocol::to_frame({77, 0}, caf::make_message(msg::committed{}));
  for (const msg::blob& part : *parts) pieces.push_back({part.owner(), part.data(), part.size()});
  far->send(links::link::first_user_kind + 1, std::move(pieces));
  far->send(77, {});
  EXPECT_EQ(word_of_loss(), "it sent a frame of kind 77") << "the answer has not ended the link";
}

}  // namespace
}  // namespace troupe::nodes::data_link_test
