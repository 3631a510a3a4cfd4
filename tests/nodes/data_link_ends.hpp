// Both ends of a data link within a process, for tests.

#pragma once

#include "cluster/nodes/data_link.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <caf/all.hpp>
#include <future>

#include "cluster/links/connect.hpp"
#include "cluster/links/io_thread.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes::data_link_test {

inline constexpr std::uint32_t number = 5;
inline constexpr auto timeout = std::chrono::seconds(60);  // for a broken build, never to be reached

/// The handlers of the test's server.
struct handlers {
  std::function<caf::result<msg::rows>(msg::parameter_server_actor::pointer, msg::lookup&)> on_lookup;
  std::function<void(msg::gradient&)> on_gradient;
};

inline msg::parameter_server_actor::behavior_type server(msg::parameter_server_actor::pointer self, handlers what) {
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

inline caf::result<msg::rows> five_rows(msg::parameter_server_actor::pointer, msg::lookup& asked) {
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

  /// Returns a lookup handler that never answers.
  static auto never() {
    // The actor owns its promises: it may still run when the test's object is destroyed.
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

  /// Links a server with these handlers; returns its proxy.
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
                                                           .message_bytes_max = message_bytes_max_,
                                                           .narrows = narrows_});
    here_->start([this](const std::string& why) { lost_.set_value(why); });
  }

  /// Sends bytes that no data link sends; returns the reason why the link ended.
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

  static msg::lookup ask_rows(std::uint64_t step) { return {{1, step, 9, 0, 1, 0}, {{4, {}, {}, {}}}, 3, dtype::f32}; }

  static msg::gradient some_gradient(std::uint64_t step, std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    return {
        {1, step, 9, 0, 1, 0}, 0, true, true, {{4, {}, {}, {}, msg::tensor::own(count, 1, std::vector<float>(count))}}};
  }

  /// Returns the error that answers a request.
  caf::error failure_of(const msg::parameter_server_actor& receiver, std::uint64_t step) {
    return failure_of(receiver, ask_rows(step));
  }
  caf::error failure_of(const msg::parameter_server_actor& receiver, const msg::lookup& question) {
    caf::error found;
    self_->request(receiver, timeout, question)
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
  bool narrows_ = false;
  data_link_ptr here_;
  data_link_ptr there_;
  std::promise<std::string> lost_;
};

}  // namespace troupe::nodes::data_link_test
