#include "links/connect.hpp"

#include <fmt/format.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "links/dead_after.hpp"
#include "links/handshake.hpp"
#include "links/stream_link.hpp"
#include "links/tcp.hpp"

namespace troupe::links {

namespace {

using connected = std::function<void(result<link_ptr>)>;

/// Resolves the address, connects, and starts the handshake. Keeps itself alive until it has called `done_`.
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
        resolver_(io),
        socket_(io),
        timer_(io) {
    if (mine_.peer_name.empty()) mine_.peer_name = where_.host;
  }

  void start() {
    deadline_ = std::chrono::steady_clock::now() + handshakes_.time;
    timer_.expires_at(deadline_);
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->fail("nobody answers there within " + seconds_text(self->handshakes_.time));
    });
    boost::system::error_code no_address;
    const auto address = asio::ip::make_address(where_.host, no_address);
    if (!no_address) {
      const asio::ip::tcp::endpoint only(address, where_.port);
      return try_addresses(tcp_resolver::results_type::create(only, where_.host, std::to_string(where_.port)));
    }
    resolver_.async_resolve(where_.host, std::to_string(where_.port), asio::ip::resolver_base::numeric_service,
                            [self = shared_from_this()](const boost::system::error_code& error, auto found) {
                              if (error) return self->fail("its address was not found: " + error.message());
                              self->try_addresses(found);
                            });
  }

 private:
  void try_addresses(const tcp_resolver::results_type& addresses) {
    if (!done_) return;
    asio::async_connect(socket_, addresses,
                        [self = shared_from_this()](const boost::system::error_code& error, const auto&) {
                          if (!self->done_) return;
                          if (error) return self->fail(error.message() + "; is the other side started?");
                          self->shake_hands();
                        });
  }

  void shake_hands() {
    boost::system::error_code error;
    // On this machine the kernel may give a connecting socket the very port that it connects to.
    if (socket_.local_endpoint(error) == socket_.remote_endpoint(error) && !error)
      return fail("Connection refused; is the other side started?");
    timer_.cancel();
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
    std::make_shared<handshake>(std::move(socket_), mine_, std::move(what))->start();
  }

  void fail(const std::string& why) {
    if (!done_) return;
    const auto done = std::exchange(done_, nullptr);
    timer_.cancel();
    resolver_.cancel();
    boost::system::error_code ignored;
    socket_.close(ignored);
    done(failure(fault_kind::unreachable, fmt::format("{}: {}", to_string(where_), why)));
  }

  asio::io_context& io_;
  const endpoint where_;
  credentials mine_;
  const hello about_me_;
  const link_limits links_;
  const handshake_limits handshakes_;
  connected done_;
  tcp_resolver resolver_;
  tcp_socket socket_;
  io_timer timer_;
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace

void connect(boost::asio::io_context& io, const endpoint& where, const credentials& mine, const hello& about_me,
             const link_limits& links, const handshake_limits& handshakes, connected done) {
  auto attempt = std::make_shared<connecting>(io, where, mine, about_me, links, handshakes, std::move(done));
  asio::post(io, [attempt] { attempt->start(); });
}

}  // namespace troupe::links
