// A data link: carries the messages of the training step between the actors of two processes.
//
// On either side a proxy stands for each actor of the other process, with the same typed interface. A proxy is not an
// actor of its own: it writes the frame on the sender's thread. An incoming message runs on the link's thread if it is
// small, and its receiver has been quick and runs no user's code; else on the actor system's workers, so that pings and
// other actors' messages get through.
//
// Credit: a sender has at most `window_bytes` of messages without an answer in flight (gradients, buckets). The
// receiver returns credit when its actor has handled them, in portions of an eighth of the window, so that a slow
// actor's mailbox stays small. Requests need no credit, since their sender waits for the answers. A message longer than
// the window is sent once less than a portion is in flight.

#pragma once

#include <atomic>
#include <caf/actor_control_block.hpp>
#include <caf/actor_system.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/common/inline_execution.hpp"
#include "cluster/links/link.hpp"
#include "cluster/nodes/link_trace.hpp"
#include "protocol/message_frame.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// The actors of this process that other processes may send to, by their number in the run. Thread: any.
class actor_directory {
 public:
  void add(std::uint32_t number, caf::strong_actor_ptr actor) {
    const std::lock_guard lock(mutex_);
    actors_[number] = std::move(actor);
  }

  /// Returns the actor, or null.
  caf::strong_actor_ptr find(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    const auto known = actors_.find(number);
    return known == actors_.end() ? nullptr : known->second;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    actors_.clear();
  }

  /// Notes that the actor blocked its thread for long: it must not run on a link's thread again.
  void note_slow(std::uint32_t number) {
    const std::lock_guard lock(mutex_);
    slow_.insert(number);
  }
  bool is_slow(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    return slow_.contains(number);
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint32_t, caf::strong_actor_ptr> actors_;
  std::set<std::uint32_t> slow_;
};

class data_link : public std::enable_shared_from_this<data_link> {
 public:
  using clock = std::chrono::steady_clock;

  struct options {
    /// The other process, for error texts.
    std::string peer;
    std::uint32_t node = 0;
    std::uint64_t window_bytes = std::uint64_t{64} << 20;
    std::chrono::milliseconds request_timeout{120'000};
    /// Longest message; a longer one is refused to its sender.
    std::uint64_t message_bytes_max = links::link_limits{}.frame_bytes_max;
    /// Messages, but not answers, leave out zero bytes of their numbers (protocol/narrow_words.hpp).
    bool narrows = false;
  };

  /// Requires: `unit` belongs to the link's thread.
  data_link(caf::actor_system& system, links::link_ptr wire, std::shared_ptr<actors::inline_execution> unit,
            std::shared_ptr<actor_directory> actors, options how);

  /// Starts. Calls `on_lost` on the link's thread, with the reason, when the peer is gone; not after `close`.
  void start(std::function<void(const std::string& why)> on_lost);

  /// Returns a proxy of that actor of the other process. It does not keep the link alive. Thread: any.
  template <class Handle>
  Handle proxy(std::uint32_t number) {
    return caf::actor_cast<Handle>(make_proxy(number));
  }

  /// Ends the link without a goodbye; answers waiting requests with an error. Thread: any.
  void close();

  /// Fails the requests whose deadline has passed. Thread: any.
  void expire(clock::time_point now);
  /// Extends the deadlines of waiting requests by `time`: this process was stopped.
  void postpone(clock::duration time);

  /// Sends a sign of life if it is time for one. Thread: any.
  void keep_alive() { wire_->keep_alive(); }

  const std::string& peer() const { return how_.peer; }
  /// Returns the sender of all messages from the peer. Requires: started. Thread: any.
  caf::actor_addr sender() const { return caf::actor_cast<caf::actor_addr>(replies_); }
  /// Returns the newest step for which a message was sent. Thread: any.
  std::uint64_t newest_step() const { return newest_step_.load(std::memory_order_relaxed); }
  /// For status reports: bytes that the socket has not accepted, and messages that wait for credit.
  std::uint64_t queued_bytes() const { return wire_->queued_bytes(); }
  std::size_t waiting_for_credit() const;

  // -- for proxies -------------------------------------------------------------

  /// Sends `content` of `sender` to the peer's actor `number`; with a request id, the answer comes back.
  void forward(std::uint32_t number, caf::strong_actor_ptr sender, caf::message_id id, const caf::message& content);
  /// A local actor has answered, or handled, a message from the peer.
  void answered(caf::message_id id, const caf::message& content);

 private:
  struct pending_request {
    caf::strong_actor_ptr sender;
    caf::message_id response;
    clock::time_point deadline;
    std::uint32_t actor = 0;
    caf::type_id_t type = 0;
    std::uint64_t step = 0;
  };

  /// A message that a local actor is handling.
  struct handling {
    std::uint32_t actor = 0;
    std::uint64_t bytes = 0;  ///< credit to return; 0: a request, which gets an answer
    clock::time_point begin;
  };

  struct waiting_frame {
    msg::header head;
    std::vector<msg::blob> parts;
    std::uint64_t bytes = 0;
  };

  void note_step(std::uint64_t step);
  caf::strong_actor_ptr make_proxy(std::uint32_t number);
  void received(links::received_frame&& frame);
  caf::error take_message(const msg::blob& body);
  caf::error take_answer(const msg::blob& body, bool failure);
  caf::error take_credit(const msg::blob& body);
  std::optional<pending_request> take_pending(std::uint64_t id);
  caf::error check_length(caf::type_id_t type, std::uint64_t step, const std::vector<msg::blob>& parts) const;
  void deliver(const pending_request& request, caf::message content, caf::execution_unit* context = nullptr);
  void refuse(const pending_request& request, protocol::errc why, std::string text);
  bool has_credit(std::uint64_t bytes) const;
  std::uint64_t portion() const { return how_.window_bytes / 8; }
  void send_with_credit(const msg::header& about, std::vector<msg::blob> parts, bool more_follows);
  void handled(std::uint64_t id);
  void lost(const std::string& why);
  void fail_pending(const std::string& why);
  std::string question(const pending_request& request) const;
  void run_woken();
  caf::execution_unit* context_for(std::uint64_t bytes);
  caf::execution_unit* context_of(std::uint32_t actor, std::uint64_t bytes);

  caf::actor_system& system_;
  links::link_ptr wire_;
  const std::shared_ptr<actors::inline_execution> unit_;
  const std::shared_ptr<actor_directory> actors_;
  const options how_;
  const link_trace trace_;
  std::function<void(const std::string&)> on_lost_;
  caf::strong_actor_ptr replies_;  ///< the sender of all messages from the peer

  std::atomic<std::uint64_t> newest_step_ = 0;
  std::optional<std::uint32_t> woken_;  ///< the local actor that the link's thread must run; that thread only
  protocol::sent_blobs sent_blobs_;
  const protocol::frame_rules frames_;
  protocol::kept_blobs kept_blobs_;  ///< the link's thread only

  mutable std::mutex mutex_;  // guards all members below
  bool ended_ = false;
  std::string why_ended_;
  std::uint64_t next_request_ = 1;
  std::unordered_map<std::uint64_t, pending_request> pending_;
  std::uint64_t in_flight_ = 0;           ///< bytes sent for which credit has not returned
  std::deque<waiting_frame> uncredited_;  ///< in sending order
  std::uint64_t next_handling_ = 1;
  std::unordered_map<std::uint64_t, handling> handling_;  ///< by the id under which the actor answers
  std::map<std::uint32_t, std::uint32_t> quick_;          ///< by local actor: quick messages
  std::uint64_t credit_to_return_ = 0;
};

using data_link_ptr = std::shared_ptr<data_link>;

}  // namespace troupe::nodes
