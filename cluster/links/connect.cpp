#include "cluster/links/connect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

#include "base/mapped.hpp"
#include "cluster/links/connect_to_first.hpp"
#include "cluster/links/dead_after.hpp"
#include "cluster/links/handshake.hpp"
#include "cluster/links/stream_link.hpp"
#include "cluster/links/tcp.hpp"

namespace troupe::links {

namespace {

using connected = std::function<void(result<link_ptr>)>;
using tcp_endpoint = asio::ip::tcp::endpoint;
using pipe_end = asio::posix::basic_stream_descriptor<asio::io_context::executor_type>;

/// Delay before the next address is tried, while earlier ones may still answer (RFC 8305, 5).
constexpr std::chrono::milliseconds attempt_delay{250};

/// Ends a connection that is not needed. A plain close would reset it, which looks like a fault at the other side.
void part(tcp_socket&& unneeded) {
  const auto socket = std::make_shared<tcp_socket>(std::move(unneeded));
  boost::system::error_code ignored;
  socket->shutdown(asio::socket_base::shutdown_send, ignored);
  const auto drain = [socket](const auto& again) -> void {
    const auto rest = std::make_shared<std::array<char, 512>>();
    socket->async_read_some(asio::buffer(*rest), [socket, rest, again](const boost::system::error_code& ended, auto) {
      if (!ended) again(again);
    });
  };
  drain(drain);
}

/// Looks up the addresses, connects to the first that answers, and starts the handshake. Keeps itself alive until it
/// has called `done_`.
class connecting : public std::enable_shared_from_this<connecting> {
 public:
  connecting(asio::io_context& io, endpoint where, credentials mine, hello about_me, const link_limits& links,
             const handshake_limits& handshakes, connected done)
      : io_(io),
        where_(std::move(where)),
        mine_(std::move(mine)),
        about_me_(std::move(about_me)),
        links_(links),
        handshakes_(handshakes),
        done_(std::move(done)),
        looked_up_(io),
        next_one_(io),
        timer_(io) {
    if (mine_.peer_name.empty()) mine_.peer_name = where_.host;
  }

  void start() {
    begin();
    boost::system::error_code no_address;
    const auto address = asio::ip::make_address(where_.host, no_address);
    no_address ? look_up() : try_all({{address, where_.port}});
  }

  void start(const std::vector<tcp_endpoint>& addresses) {
    begin();
    try_all(addresses);
  }

 private:
  struct attempt {
    tcp_endpoint where;
    tcp_socket socket;
    std::string why = {};  ///< why it failed; empty: it has not
  };

  void begin() {
    deadline_ = std::chrono::steady_clock::now() + handshakes_.time;
    timer_.expires_at(deadline_);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->give_up();
    });
  }

  void look_up() {
    auto begun = name_lookup::begin(where_.host, where_.port, address_use::connect);
    if (!begun) return fail(begun.error().message);
    lookup_.emplace(std::move(*begun));
    boost::system::error_code error;
    looked_up_.assign(::dup(lookup_->ready().number()), error);
    if (error) return fail("no descriptor to look its address up: " + error.message());
    looked_up_.async_wait(pipe_end::wait_read, [self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (cancelled || !self->done_) return;
      const auto found = self->lookup_->found();
      if (!found) return self->fail("its address was not found: " + found.error().message);
      self->try_all(alternated(mapped(*found, to_asio)));
    });
  }

  void try_all(const std::vector<tcp_endpoint>& addresses) {
    for (const tcp_endpoint& one : addresses) attempts_.push_back({one, tcp_socket(io_)});
    try_next();
  }

  void try_next() {
    if (!done_ || begun_ == attempts_.size()) return;
    const std::size_t number = begun_++;
    attempts_[number].socket.async_connect(
        attempts_[number].where,
        [self = shared_from_this(), number](const boost::system::error_code& error) { self->tried(number, error); });
    if (begun_ == attempts_.size()) return;
    const auto share = handshakes_.time / attempts_.size();
    next_one_.expires_after(std::min<std::chrono::milliseconds>(attempt_delay, share));
    next_one_.async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled) self->try_next();
    });
  }

  void tried(std::size_t number, boost::system::error_code error) {
    if (!done_) return;
    attempt& one = attempts_[number];
    boost::system::error_code unknown;
    // On this machine the kernel may give a connecting socket the very port that it connects to.
    if (!error && one.socket.local_endpoint(unknown) == one.socket.remote_endpoint(unknown) && !unknown)
      error = asio::error::connection_refused;
    if (!error) return shake_hands(std::move(one.socket));
    one.why = error.message();
    boost::system::error_code ignored;
    one.socket.close(ignored);
    if (std::ranges::none_of(attempts_, [](const attempt& each) { return each.why.empty(); }))
      return fail((attempts_.size() > 1 ? all_attempts_text() : one.why) + "; is the other side started?");
    next_one_.cancel();
    try_next();
  }

  void give_up() {
    const std::string time = seconds_text(handshakes_.time);
    if (attempts_.empty()) return fail("its address was not found within " + time);
    fail(attempts_.size() == 1 ? "no answer within " + time : fmt::format("{} within {}", all_attempts_text(), time));
  }

  /// Lists the addresses and the result of each.
  std::string all_attempts_text() const {
    std::vector<std::string> text;
    for (std::size_t i = 0; i < attempts_.size(); ++i)
      text.push_back(fmt::format("{}: {}", to_string(to_endpoint(attempts_[i].where)),
                                 !attempts_[i].why.empty() ? attempts_[i].why
                                 : i < begun_              ? "no answer"
                                                           : "not tried"));
    return fmt::format("none of its {} addresses can be reached ({})", text.size(), fmt::join(text, "; "));
  }

  void shake_hands(tcp_socket socket) {
    timer_.cancel();
    next_one_.cancel();
    handshake::task what{.side = link_side::connector,
                         .role = connector_role(mine_.token, with_dead_after(about_me_, links_.dead_after)),
                         .name = to_string(where_),
                         .time = handshakes_.time,
                         .deadline = deadline_,
                         .done = nullptr};
    // The timer's handler may be queued already; without `done_` it does nothing.
    what.done = [self = shared_from_this(), done = std::exchange(done_, nullptr)](result<greeted_connection> result) {
      if (!result) return done(tl::unexpected(std::move(result.error())));
      done(std::make_shared<stream_link>(self->io_, std::move(*result), self->links_));
    };
    std::make_shared<handshake>(std::move(socket), mine_, std::move(what))->start();
    end_attempts();
  }

  void end_attempts() {
    for (attempt& one : attempts_) {
      boost::system::error_code not_connected;
      one.socket.remote_endpoint(not_connected);
      if (not_connected)
        one.socket.close(not_connected);
      else
        part(std::move(one.socket));
    }
  }

  void fail(const std::string& why) {
    if (!done_) return;
    const auto done = std::exchange(done_, nullptr);
    timer_.cancel();
    next_one_.cancel();
    boost::system::error_code ignored;
    looked_up_.close(ignored);
    end_attempts();
    done(failure(fault_kind::unreachable, fmt::format("{}: {}", to_string(where_), why)));
  }

  asio::io_context& io_;
  const endpoint where_;
  credentials mine_;
  const hello about_me_;
  const link_limits links_;
  const handshake_limits handshakes_;
  connected done_;
  std::optional<name_lookup> lookup_;
  pipe_end looked_up_;
  std::vector<attempt> attempts_;
  std::size_t begun_ = 0;
  io_timer next_one_;
  io_timer timer_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace

std::vector<tcp_endpoint> alternated(std::vector<tcp_endpoint> addresses) {
  std::vector<tcp_endpoint> ordered;
  while (!addresses.empty()) {
    const bool after_v6 = !ordered.empty() && ordered.back().address().is_v6();
    auto next = ordered.empty() ? addresses.begin() : std::ranges::find_if(addresses, [&](const tcp_endpoint& one) {
      return one.address().is_v6() != after_v6;
    });
    if (next == addresses.end()) next = addresses.begin();
    ordered.push_back(*next);
    addresses.erase(next);
  }
  return ordered;
}

void connect_to_first(boost::asio::io_context& io, const endpoint& name, const std::vector<tcp_endpoint>& addresses,
                      const credentials& mine, const hello& about_me, const link_limits& links,
                      const handshake_limits& handshakes, std::function<void(result<link_ptr>)> done) {
  auto attempt = std::make_shared<connecting>(io, name, mine, about_me, links, handshakes, std::move(done));
  asio::post(io, [attempt, addresses] { attempt->start(addresses); });
}

void connect(boost::asio::io_context& io, const endpoint& where, const credentials& mine, const hello& about_me,
             const link_limits& links, const handshake_limits& handshakes, connected done) {
  auto attempt = std::make_shared<connecting>(io, where, mine, about_me, links, handshakes, std::move(done));
  asio::post(io, [attempt] { attempt->start(); });
}

}  // namespace troupe::links
