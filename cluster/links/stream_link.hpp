// The link of `connect` and `listener`, over plain TCP or TLS.
//
// A sender writes to the socket itself, under the mutex, if nothing is queued: a small frame costs one system call and
// no context switch. The thread that runs the io_context reads, detects the other side's death, and writes the queue.

#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cluster/links/frame.hpp"
#include "cluster/links/frame_reader.hpp"
#include "cluster/links/hello.hpp"
#include "cluster/links/link.hpp"
#include "cluster/links/live_links.hpp"
#include "cluster/links/tcp.hpp"
#include "cluster/links/transport.hpp"

namespace troupe::links {

/// A connection whose handshake is over.
struct greeted_connection {
  tcp_socket socket;
  std::unique_ptr<transport> wire;
  hello peer;
  endpoint local;
  endpoint remote;
};

class stream_link final : public link, public std::enable_shared_from_this<stream_link>, private abandonable {
 public:
  stream_link(asio::io_context& io, greeted_connection&& connection, const link_limits& limits);
  ~stream_link() override;

  void start(callbacks what) override;
  void send(std::uint8_t kind, std::vector<piece> body, bool more_follows) override;
  void flush() override;
  void keep_alive() override;
  void pause_reading(bool pause) override;
  void close() override;
  std::uint64_t queued_bytes() const override { return queued_bytes_.load(std::memory_order_relaxed); }
  const hello& peer() const override { return peer_; }
  const std::string& peer_certificate() const override { return peer_certificate_; }
  endpoint local_address() const override { return local_; }
  endpoint remote_address() const override { return remote_; }

 private:
  using clock = std::chrono::steady_clock;

  enum class phase {
    fresh,    // not started
    running,  //
    closing,  // after `close`: the queue is sent, received bytes are discarded
    ended     // the socket is closed
  };

  struct outgoing {
    frame_header_image header;
    std::vector<piece> body;
    std::size_t size = 0;  // header and body
    std::size_t sent = 0;
  };

  // Called on the io thread, without the mutex.
  void begin();
  void begin_closing();
  void read_some();
  void discard_some();
  bool take(std::size_t count);
  void wait_readable();
  void on_readable();
  void arm_write();
  void on_writable();
  void tick();
  void wait_tick(clock::time_point when);
  void end(const fault* why);
  bool end_by_own_fault();
  bool something_to_read();
  io_outcome read_wire(std::span<std::byte> into);

  // Called with the mutex.
  void push(const frame_header& header, std::vector<piece>&& body, bool more_follows);
  void write_queue();
  void ping_if_due(clock::time_point now) {
    if (now - last_sent_ >= rest_) push({ping_kind, 0, 0}, {}, false);
  }
  std::size_t gather(std::span<iovec> parts, std::size_t budget) const;
  void consume(std::size_t bytes);
  void drop_queue();
  void wait_writable();
  void shut_when_sent();
  template <class Function>
  void post(Function what);

  std::shared_ptr<void> abandon() override;

  asio::io_context& io_;
  const link_limits limits_;
  const std::chrono::milliseconds rest_;  ///< idle time before a ping
  const hello peer_;
  const std::string peer_certificate_;
  const endpoint local_;
  const endpoint remote_;
  const std::shared_ptr<live_links> siblings_;

  std::mutex mutex_;
  std::optional<tcp_socket> socket_;
  std::unique_ptr<transport> wire_;
  std::deque<outgoing> queue_;
  std::atomic<std::uint64_t> queued_bytes_ = 0;
  std::atomic<phase> phase_ = phase::fresh;  // written with the mutex
  clock::time_point last_sent_;
  bool write_is_due_ = false;  // a call of on_writable is pending
  bool write_wants_read_ = false;
  bool cannot_write_ = false;
  bool held_ = false;               // the queue waits for the next call
  std::optional<fault> own_fault_;  // to report when reading starts

  // Used on the io thread only.
  std::optional<io_timer> timer_;
  callbacks callbacks_;
  frame_reader reader_;
  clock::time_point last_heard_;
  clock::time_point planned_tick_;
  std::uint64_t bytes_heard_ = 0;
  bool read_is_due_ = false;  // a call of on_readable is pending
  bool read_wants_write_ = false;
  bool is_paused_ = false;
};

}  // namespace troupe::links
