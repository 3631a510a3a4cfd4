// A data link: carries the messages of the training step between the actors of two processes.
//
// On either side a proxy stands for each actor of the other one, with the same typed interface: whoever sends to it
// cannot tell. A proxy is no actor of its own: it writes the frame on the sender's thread. What comes in is handled on
// the link's thread if it is small and its receiver has been quick, else by the actor system's workers: signs of life
// must get through.
//
// Credit: a sender has at most `window_bytes` of messages without an answer under way (gradients, buckets); the
// receiver gives them back when its actor has handled them, in portions of an eighth of the window, so that a slow
// actor's mailbox stays small. Requests need none: who sends them waits for the answers. A message longer than the
// window goes when less than a portion is under way.

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

#include "actors/inline_execution.hpp"
#include "cluster/link_trace.hpp"
#include "links/link.hpp"
#include "protocol/message_frame.hpp"
#include "protocol/messages.hpp"

namespace troupe::cluster {

/// The actors of this process that others may send to, by their number within the run. May be used from any thread.
class actor_directory {
 public:
  void add(std::uint32_t number, caf::strong_actor_ptr actor) {
    const std::lock_guard lock(mutex_);
    actors_[number] = std::move(actor);
  }

  /// Null if there is none.
  caf::strong_actor_ptr find(std::uint32_t number) const {
    const std::lock_guard lock(mutex_);
    const auto known = actors_.find(number);
    return known == actors_.end() ? nullptr : known->second;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    actors_.clear();
  }

  /// It has kept its thread for long, and may again: that should not be a link's.
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
    /// For error lines: who is at the other end.
    std::string peer;
    std::uint32_t node = 0;
    std::uint64_t window_bytes = std::uint64_t{64} << 20;
    std::chrono::milliseconds request_timeout{120'000};
    /// Of a message; a longer one is refused to its sender.
    std::uint64_t message_bytes_max = links::link_limits{}.frame_bytes_max;
  };

  /// `unit` belongs to the link's thread.
  data_link(caf::actor_system& system, links::link_ptr wire, std::shared_ptr<actors::inline_execution> unit,
            std::shared_ptr<actor_directory> actors, options how);

  /// Begins. `on_lost` is called on the link's thread when the other side is gone, with the reason; not after `close`.
  void start(std::function<void(const std::string& why)> on_lost);

  /// The actor of that number in the other process. The handle does not keep the link. From any thread.
  template <class Handle>
  Handle proxy(std::uint32_t number) {
    return caf::actor_cast<Handle>(make_proxy(number));
  }

  /// Ends the link without further words; requests that wait are answered with an error. From any thread.
  void close();

  /// Fails requests whose time is up. From any thread.
  void expire(clock::time_point now);

  const std::string& peer() const { return how_.peer; }
  /// Who is the sender of all that comes from there. From any thread, once started.
  caf::actor_addr sender() const { return caf::actor_cast<caf::actor_addr>(replies_); }
  /// The newest step of which something was sent. From any thread.
  std::uint64_t newest_step() const { return newest_step_.load(std::memory_order_relaxed); }
  /// For the status: bytes not taken by the socket, and messages that wait for credit.
  std::uint64_t queued_bytes() const { return wire_->queued_bytes(); }
  std::size_t waiting_for_credit() const;

  // -- for proxies -------------------------------------------------------------

  /// Sends `content` of `sender` to the other side's actor `number`; with a request id, its answer comes back.
  void forward(std::uint32_t number, caf::strong_actor_ptr sender, caf::message_id id, const caf::message& content);
  /// A local actor has answered, or handled, what came from the other side.
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

  /// What a local actor has been given to do.
  struct handling {
    std::uint32_t actor = 0;
    std::uint64_t bytes = 0;  ///< credit to be returned; 0: a request, which is answered
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
  void refuse(const pending_request& request, protocol::errc why, std::string words);
  bool has_credit(std::uint64_t bytes) const;
  std::uint64_t portion() const { return how_.window_bytes / 8; }
  void send_with_credit(const msg::header& about, std::vector<msg::blob> parts, bool more_follows);
  void handled(std::uint64_t id);
  void lost(const std::string& why);
  void fail_pending(const std::string& why);
  std::string question(const pending_request& request) const;
  caf::execution_unit* context_for(std::uint64_t bytes);
  caf::execution_unit* context_of(std::uint32_t actor, std::uint64_t bytes);

  caf::actor_system& system_;
  links::link_ptr wire_;
  const std::shared_ptr<actors::inline_execution> unit_;
  const std::shared_ptr<actor_directory> actors_;
  const options how_;
  const link_trace trace_;
  std::function<void(const std::string&)> on_lost_;
  caf::strong_actor_ptr replies_;  ///< stands for the other side as the sender of what comes from there

  std::atomic<std::uint64_t> newest_step_ = 0;

  mutable std::mutex mutex_;  // of all below
  bool ended_ = false;
  std::string why_ended_;
  std::uint64_t next_request_ = 1;
  std::unordered_map<std::uint64_t, pending_request> pending_;
  std::uint64_t in_flight_ = 0;           ///< bytes sent for which credit has not come back
  std::deque<waiting_frame> uncredited_;  ///< in the order in which they are to be sent
  std::uint64_t next_handling_ = 1;
  std::unordered_map<std::uint64_t, handling> handling_;  ///< by the id under which the actor answers
  std::map<std::uint32_t, std::uint32_t> quick_;          ///< by local actor: messages in a row that took no time
  std::uint64_t credit_to_return_ = 0;
};

using data_link_ptr = std::shared_ptr<data_link>;

}  // namespace troupe::cluster
