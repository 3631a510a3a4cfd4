#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/mapped.hpp"
#include "base/result.hpp"
#include "cluster/links/connect.hpp"
#include "cluster/links/dead_after.hpp"
#include "cluster/links/handshake.hpp"
#include "cluster/links/stream_link.hpp"
#include "cluster/links/tcp.hpp"

namespace troupe::links {

namespace {

/// Accepts connections. Its pending operations keep it alive; the listener ends it.
class accepting : public std::enable_shared_from_this<accepting> {
 public:
  accepting(asio::io_context& io, tcp_acceptor acceptor, endpoint where, const credentials& mine,
            const link_limits& links, const handshake_limits& handshakes, listener::callbacks what)
      : io_(io),
        acceptor_(std::move(acceptor)),
        pause_(io),
        where_(std::move(where)),
        mine_(mine),
        links_(links),
        handshakes_(handshakes),
        callbacks_(std::move(what)) {}

  const endpoint& address() const { return where_; }

  void accept() {
    if (ended_) return;
    acceptor_.async_accept([self = shared_from_this()](const boost::system::error_code& error, tcp_socket socket) {
      if (self->ended_) return;
      if (error) return self->on_error(error);
      self->short_of_something_ = false;
      self->receive(std::move(socket));
      self->accept();
    });
  }

  void stop() {
    ended_ = true;
    callbacks_ = {};
    pause_.cancel();
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    for (const auto& one : pending_)
      if (const auto shaking = one.what.lock()) shaking->cancel();
  }

 private:
  /// A connection in the handshake.
  struct pending {
    std::weak_ptr<handshake> what;
    std::string host;
  };

  void receive(tcp_socket socket) {
    boost::system::error_code error;
    const auto address = socket.remote_endpoint(error);
    if (error) return;  // it is closed already
    const endpoint from = to_endpoint(address);
    handshake::task what{.side = link_side::acceptor,
                         .role = nullptr,
                         .name = to_string(from),
                         .time = handshakes_.time,
                         .deadline = std::chrono::steady_clock::now() + handshakes_.time,
                         .done = nullptr};
    what.role = acceptor_role(
        mine_.token,
        [self = shared_from_this(), from](const hello& theirs, const std::string& certificate) -> hello_reply {
          if (!self->callbacks_.on_hello) return bad_input("the port is closed");
          hello about_them = theirs;
          take_dead_after(about_them);
          hello_reply mine = self->callbacks_.on_hello(about_them, from, certificate);
          if (mine) *mine = with_dead_after(std::move(*mine), self->links_.dead_after);
          return mine;
        });
    what.done = [self = shared_from_this(), from](result<greeted_connection> result) {
      self->on_result(from, std::move(result));
    };
    const auto shaking = std::make_shared<handshake>(std::move(socket), mine_, std::move(what));
    make_room();
    if (ended_) return;
    pending_.push_back({shaking, from.host});
    shaking->start();
  }

  /// If one address floods the listener, this closes only connections of that address.
  void make_room() {
    std::erase_if(pending_, [](const auto& one) { return one.what.expired(); });
    while (!pending_.empty() && pending_.size() >= handshakes_.pending_max) {
      std::map<std::string, std::size_t> counts;
      for (const auto& one : pending_) ++counts[one.host];
      const auto oldest = std::ranges::max_element(pending_, {}, [&](const auto& one) { return counts[one.host]; });
      const auto ended = oldest->what.lock();
      pending_.erase(oldest);
      if (ended)
        ended->give_up(fmt::format(
            "is the oldest of its address, which has most of more than {} connections that have not shaken hands",
            handshakes_.pending_max));
    }
  }

  void on_result(const endpoint& from, result<greeted_connection> result) {
    if (ended_) return;
    // A callback may end the listener.
    const auto keep = shared_from_this();
    if (!result) {
      const auto on_rejected = callbacks_.on_rejected;
      if (on_rejected) on_rejected(from, result.error());
    } else {
      const auto on_link = callbacks_.on_link;
      if (on_link) on_link(std::make_shared<stream_link>(io_, std::move(*result), links_));
    }
  }

  void on_error(const boost::system::error_code& error) {
    if (error == asio::error::connection_aborted || error == asio::error::interrupted) return accept();
    // Probably too many open files: the connection still waits, and accepting it at once would fail again.
    constexpr std::chrono::milliseconds pause{100};
    pause_.expires_after(pause);
    pause_.async_wait([self = shared_from_this()](const boost::system::error_code& stopped) {
      if (!stopped) self->accept();
    });
    if (std::exchange(short_of_something_, true) || !callbacks_.on_rejected) return;
    const auto on_rejected = callbacks_.on_rejected;
    on_rejected(where_, {fault_kind::input, fmt::format("{}: cannot accept connections for now: {}; see `ulimit -n`",
                                                        to_string(where_), error.message())});
  }

  asio::io_context& io_;
  tcp_acceptor acceptor_;
  io_timer pause_;
  const endpoint where_;
  const credentials mine_;
  const link_limits links_;
  const handshake_limits handshakes_;
  listener::callbacks callbacks_;
  std::deque<pending> pending_;
  bool ended_ = false;
  bool short_of_something_ = false;
};

/// Listens at one address or several.
class tcp_listener final : public listener {
 public:
  tcp_listener() = default;
  // NOLINTNEXTLINE(bugprone-exception-escape): cancelling a timer of Asio may throw by its signature, but never fails
  ~tcp_listener() override {
    for (const auto& one : all_) one->stop();
  }

  tcp_listener(const tcp_listener&) = delete;
  tcp_listener& operator=(const tcp_listener&) = delete;

  void add(asio::io_context& io, std::shared_ptr<accepting> one) {
    asio::post(io, [one] { one->accept(); });
    all_.push_back(std::move(one));
  }

  std::vector<endpoint> addresses() const override {
    return mapped(all_, [](const auto& one) { return one->address(); });
  }

 private:
  std::vector<std::shared_ptr<accepting>> all_;
};

}  // namespace

result<listening_sockets> listen_at(const endpoint& where) {
  auto addresses = addresses_of(where.host, where.port, address_use::listen);
  if (!addresses)
    return failure(
        addresses.error().kind,
        fmt::format("{}: cannot listen there: {}; give an address of this machine, such as 127.0.0.1 or 0.0.0.0",
                    to_string(where), addresses.error().message));
  auto made = listen_at_all(*addresses);
  if (!made && addresses->size() > 1)
    return failure(made.error().kind, fmt::format("{}: {}", to_string(where), made.error().message));
  return made;
}

result<std::unique_ptr<listener>> listener::open(asio::io_context& io, const endpoint& where, const credentials& mine,
                                                 const link_limits& links, const handshake_limits& handshakes,
                                                 const callbacks& what) {
  TROUPE_TRY(at, listen_at(where));
  return adopt(io, at, mine, links, handshakes, what);
}

result<std::unique_ptr<listener>> listener::adopt(asio::io_context& io, const listening_sockets& at,
                                                  const credentials& mine, const link_limits& links,
                                                  const handshake_limits& handshakes, const callbacks& what) {
  auto made = std::make_unique<tcp_listener>();
  for (std::size_t i = 0; i < at.sockets.size(); ++i) {
    const auto where = to_asio(at.addresses[i]);
    const int own = ::fcntl(at.sockets[i].number(), F_DUPFD_CLOEXEC, 0);
    boost::system::error_code error(errno, boost::system::system_category());
    tcp_acceptor acceptor(io);
    if (own >= 0) acceptor.assign(where.protocol(), own, error);
    if (error) return bad_input("{}: the port that listens there: {}", to_string(to_endpoint(where)), error.message());
    made->add(io,
              std::make_shared<accepting>(io, std::move(acceptor), to_endpoint(where), mine, links, handshakes, what));
  }
  return made;
}

}  // namespace troupe::links
