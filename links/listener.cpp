#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "links/connect.hpp"
#include "links/dead_after.hpp"
#include "links/handshake.hpp"
#include "links/stream_link.hpp"
#include "links/tcp.hpp"

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
          if (!self->callbacks_.on_hello) return bad_input("nobody listens any more");
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

  /// A flood of connections from one address closes only connections of that address.
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
      const auto tell = callbacks_.on_rejected;
      if (tell) tell(from, result.error());
    } else {
      const auto tell = callbacks_.on_link;
      if (tell) tell(std::make_shared<stream_link>(io_, std::move(*result), links_));
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
    const auto tell = callbacks_.on_rejected;
    tell(where_, {fault_kind::input, fmt::format("{}: cannot accept connections for now: {}; see `ulimit -n`",
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

class tcp_listener final : public listener {
 public:
  explicit tcp_listener(std::shared_ptr<accepting> what) : what_(std::move(what)) {}
  ~tcp_listener() override { what_->stop(); }

  tcp_listener(const tcp_listener&) = delete;
  tcp_listener& operator=(const tcp_listener&) = delete;

  endpoint address() const override { return what_->address(); }

 private:
  std::shared_ptr<accepting> what_;
};

boost::system::error_code bind_to(tcp_acceptor& acceptor, const asio::ip::tcp::endpoint& address) {
  boost::system::error_code error;
  if (acceptor.open(address.protocol(), error)) return error;
  close_on_exec(acceptor.native_handle());
  if (acceptor.set_option(asio::socket_base::reuse_address(true), error)) return error;
  if (acceptor.bind(address, error)) return error;
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  return error;
}

fault cannot_listen(const endpoint& where, const boost::system::error_code& error) {
  if (error == asio::error::address_in_use)
    return {
        fault_kind::address_in_use,
        fmt::format("{}: somebody else listens there; choose another port, or 0 for any free one", to_string(where))};
  return {fault_kind::input,
          fmt::format("{}: cannot listen there: {}; give an address of this machine, such as 127.0.0.1 or 0.0.0.0",
                      to_string(where), error.message())};
}

}  // namespace

result<tcp_acceptor> listen_at_first(asio::io_context& io, const std::vector<asio::ip::tcp::endpoint>& addresses) {
  fault why{fault_kind::input, "nowhere to listen"};
  for (const auto& address : addresses) {
    tcp_acceptor acceptor(io);
    const auto error = bind_to(acceptor, address);
    if (!error) return acceptor;
    why = cannot_listen(to_endpoint(address), error);
    if (why.kind == fault_kind::address_in_use) break;
  }
  return tl::unexpected(std::move(why));
}

namespace {

result<tcp_acceptor> listen_at(asio::io_context& io, const endpoint& where) {
  boost::system::error_code error;
  tcp_resolver resolver(io);
  const auto found =
      resolver.resolve(where.host, std::to_string(where.port),
                       asio::ip::resolver_base::passive | asio::ip::resolver_base::numeric_service, error);
  if (error) return tl::unexpected(cannot_listen(where, error));
  std::vector<asio::ip::tcp::endpoint> addresses;
  for (const auto& one : found) addresses.push_back(one.endpoint());
  return listen_at_first(io, addresses);
}

std::unique_ptr<listener> start_to_accept(asio::io_context& io, tcp_acceptor acceptor, const credentials& mine,
                                          const link_limits& links, const handshake_limits& handshakes,
                                          listener::callbacks what) {
  const endpoint bound = to_endpoint(acceptor.local_endpoint());
  auto state = std::make_shared<accepting>(io, std::move(acceptor), bound, mine, links, handshakes, std::move(what));
  asio::post(io, [state] { state->accept(); });
  return std::make_unique<tcp_listener>(std::move(state));
}

}  // namespace

result<descriptor> listening_socket(const endpoint& where) {
  asio::io_context io;
  TROUPE_TRY(acceptor, listen_at(io, where));
  boost::system::error_code error;
  const int socket = acceptor.release(error);
  if (error) return tl::unexpected(cannot_listen(where, error));
  return descriptor::adopt(socket);
}

result<std::unique_ptr<listener>> listener::open(asio::io_context& io, const endpoint& where, const credentials& mine,
                                                 const link_limits& links, const handshake_limits& handshakes,
                                                 callbacks what) {
  TROUPE_TRY(acceptor, listen_at(io, where));
  return start_to_accept(io, std::move(acceptor), mine, links, handshakes, std::move(what));
}

result<std::unique_ptr<listener>> listener::adopt(asio::io_context& io, const descriptor& socket,
                                                  const credentials& mine, const link_limits& links,
                                                  const handshake_limits& handshakes, callbacks what) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  const int own = ::fcntl(socket.number(), F_DUPFD_CLOEXEC, 0);
  boost::system::error_code error(errno, boost::system::system_category());
  tcp_acceptor acceptor(io);
  if (own >= 0 && ::getsockname(own, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    acceptor.assign(address.ss_family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), own, error);
  if (error) return bad_input("the port that an earlier attempt listened at: {}", error.message());
  return start_to_accept(io, std::move(acceptor), mine, links, handshakes, std::move(what));
}

}  // namespace troupe::links
