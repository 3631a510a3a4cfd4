// Two ends of links in one io_context, which tests run until the expected event.

#pragma once

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "cluster/links/connect.hpp"

namespace troupe::links {

/// Runs `io` until `condition` holds; returns false on a timeout, which only a broken build should reach.
inline bool run_until(boost::asio::io_context& io, const std::function<bool()>& condition) {
  constexpr std::chrono::seconds limit{60};
  constexpr std::chrono::milliseconds turn{5};  // other threads may also make conditions true
  const auto give_up = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    io.restart();
    io.run_one_for(turn);
  }
  return true;
}

inline piece to_piece(const std::string& text) {
  const auto kept = std::make_shared<std::string>(text);
  return {kept, reinterpret_cast<const std::byte*>(kept->data()), kept->size()};
}

inline std::string to_text(const received_frame& frame) {
  return {reinterpret_cast<const char*>(frame.memory.get()), frame.size};
}

/// One end of a link, and what it has received.
struct link_end {
  explicit link_end(link_ptr made) : wire(std::move(made)) {}

  link::callbacks callbacks() {
    return {[this](received_frame&& frame) {
              ++frame_count;
              if (keeps_frames) frames.push_back(std::move(frame));
            },
            [this](const fault* why) {
              ++end_count;
              if (why != nullptr) ended_by = *why;
            }};
  }

  link_ptr wire;
  bool keeps_frames = true;
  std::size_t frame_count = 0;
  std::deque<received_frame> frames;
  int end_count = 0;
  std::optional<fault> ended_by;
};

class LinkStage : public testing::Test {
 protected:
  static constexpr const char* good_token = "a token that tests share";

  /// Listens on a free port of this machine and admits every peer that proves the token.
  endpoint listen(const credentials& mine, const handshake_limits& handshakes = {}) {
    listener::callbacks what;
    what.on_hello = [this](const hello& theirs, const endpoint&, const std::string& certificate) -> hello_reply {
      hellos.push_back(theirs);
      certificates.push_back(certificate);
      if (refusal) return bad_input(*refusal);
      return hello{{"role", "acceptor"}};
    };
    what.on_link = [this](link_ptr made) { accepted.push_back(std::move(made)); };
    what.on_rejected = [this](const endpoint&, const fault& why) { rejected.push_back(why); };
    auto opened = listener::open(io, {"127.0.0.1", 0}, mine, limits, handshakes, std::move(what));
    EXPECT_TRUE(opened) << opened.error().message;
    listening = std::move(*opened);
    return listening->address();
  }

  /// Starts to connect; the result is stored in the returned pointer's target.
  std::shared_ptr<std::optional<result<link_ptr>>> dial(const endpoint& where, const credentials& mine,
                                                        const handshake_limits& handshakes = {}) {
    auto outcome = std::make_shared<std::optional<result<link_ptr>>>();
    connect(io, where, mine, {{"role", "connector"}}, limits, handshakes,
            [outcome](result<link_ptr> result) { *outcome = std::move(result); });
    return outcome;
  }

  /// Waits for the result of `dial`.
  result<link_ptr> connected(const endpoint& where, const credentials& mine, const handshake_limits& handshakes = {}) {
    const auto outcome = dial(where, mine, handshakes);
    EXPECT_TRUE(run_until(io, [&] { return outcome->has_value(); }));
    return outcome->has_value() ? **outcome : failure(fault_kind::lost, "the test gave up");
  }

  bool wait(const std::function<bool()>& condition) { return run_until(io, condition); }

  /// Makes two ends of a link, not started.
  std::pair<std::unique_ptr<link_end>, std::unique_ptr<link_end>> make_ends(const credentials& mine) {
    auto here = connected(listen(mine), mine);
    EXPECT_TRUE(here) << here.error().message;
    EXPECT_TRUE(wait([&] { return accepted.size() == 1; }));
    return {std::make_unique<link_end>(*here), std::make_unique<link_end>(accepted.front())};
  }

  static void start(link_end& end) { end.wire->start(end.callbacks()); }

  std::unique_ptr<boost::asio::io_context> owned_io = std::make_unique<boost::asio::io_context>();
  boost::asio::io_context& io = *owned_io;
  link_limits limits{
      .frame_bytes_max = std::uint64_t{1} << 30, .dead_after = std::chrono::minutes(1), .digests = digest_use::always};
  std::unique_ptr<listener> listening;
  std::optional<std::string> refusal;
  std::vector<hello> hellos;
  std::vector<std::string> certificates;  // of the peers that sent a hello
  std::vector<link_ptr> accepted;
  std::vector<fault> rejected;
};

}  // namespace troupe::links
