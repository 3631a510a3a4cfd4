#include "cluster/nodes/data_plane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <utility>

#include "cluster/links/shared_memory_link.hpp"
#include "cluster/links/tls_context.hpp"

namespace troupe::nodes {

namespace {

/// The messages of a step follow each other within this time; during a longer computation, other threads get the core.
constexpr std::chrono::microseconds linger{30};

/// Removes a leading `name: `, which would repeat the name.
std::string without_name(const std::string& text, const std::string& name) {
  return text.starts_with(name + ": ") ? text.substr(name.size() + 2) : text;
}

}  // namespace

data_plane::data_plane(caf::actor_system& system, options how)
    : system_(system),
      how_(std::move(how)),
      thread_(linger),
      unit_(std::make_shared<actors::inline_execution>(&system)),
      expiry_(thread_.io()) {}

data_plane::~data_plane() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [node, one] : links_) one->close();
  }
  thread_.stop();
  listener_.reset();
  links_.clear();
  actors_->clear();
}

result<links::endpoint> data_plane::listen(const links::endpoint& where) {
  const auto open = [&]() -> result<links::endpoint> {
    auto made = links::listener::open(
        thread_.io(), where, how_.mine, how_.links, how_.handshakes,
        {.on_hello = [this](const links::hello& theirs, const links::endpoint&,
                            const std::string& certificate) { return rules_.check_hello(theirs, certificate); },
         .on_link =
             [this](links::link_ptr wire) {
               const auto node = static_cast<std::uint32_t>(node_in(wire->peer()));
               add(node, std::move(wire));
             },
         .on_rejected = [](const links::endpoint&, const fault&) {}});
    if (!made) return tl::unexpected(made.error());
    listener_ = std::move(*made);
    expire_later();
    return listener_->address();
  };
  return boost::asio::post(thread_.io(), boost::asio::use_future(open)).get();
}

void data_plane::expect(const identity& me, std::vector<msg::peer_node> peers,
                        std::function<void(std::uint32_t, const std::string&)> on_lost) {
  boost::asio::post(thread_.io(), boost::asio::use_future([&] {
                      on_lost_ = std::move(on_lost);
                      rules_.expect(me, std::move(peers));
                    }))
      .get();
}

void data_plane::connect(std::function<void(const std::string&)> done) {
  boost::asio::post(thread_.io(), [this, done = std::move(done)]() mutable {
    on_settled_ = std::move(done);
    const auto give_up = std::chrono::steady_clock::now() + how_.links.dead_after;
    for (const std::uint32_t node : rules_.to_dial()) dial(node, give_up);
    settle_if_complete();
  });
}

void data_plane::dial(std::uint32_t node, std::chrono::steady_clock::time_point give_up) {
  const msg::peer_node* peer = rules_.find(node);
  const auto where = links::parse_endpoint(peer->address);
  if (!where) return settle(fmt::format("{} has no address for data links: {}", peer->name, peer->address));
  links::credentials mine = how_.mine;
  mine.peer_certificate = peer->certificate;
  if (mine.tls && mine.tls->by_certificates && peer->certificate.empty())
    return settle(fmt::format("{} has joined without a certificate", peer->name));
  troupe::links::connect(
      thread_.io(), *where, mine, rules_.about_me(), how_.links, how_.handshakes,
      [this, node, give_up](result<links::link_ptr> made) { dialled(node, give_up, std::move(made)); });
}

void data_plane::dialled(std::uint32_t node, std::chrono::steady_clock::time_point give_up,
                         result<links::link_ptr> made) {
  const msg::peer_node* peer = rules_.find(node);
  if (!made) {
    if (made.error().kind == fault_kind::unreachable && std::chrono::steady_clock::now() < give_up) {
      constexpr std::chrono::milliseconds pause{100};
      auto timer = std::make_shared<boost::asio::steady_timer>(thread_.io(), pause);
      timer->async_wait([this, timer, node, give_up](const boost::system::error_code& cancelled) {
        if (!cancelled) dial(node, give_up);
      });
      return;
    }
    return settle(fmt::format(
        "{} cannot be reached at {} by {}: {}; let it name an address that others reach by --advertise HOST",
        peer->name, peer->address, rules_.myself()->name, without_name(made.error().message, peer->address)));
  }
  if (node_in((*made)->peer()) != node) return settle(fmt::format("{} is another process", peer->name));
  add(node, std::move(*made));
}

void data_plane::add(std::uint32_t node, links::link_ptr wire) {
  const msg::peer_node* peer = rules_.find(node);
  const bool same_host = wire->local_address().host == wire->remote_address().host;
  wire = links::with_shared_memory(std::move(wire), how_.links, same_host ? links::shared_memory_bytes : 0);
  auto made = std::make_shared<data_link>(system_, std::move(wire), unit_, actors_,
                                          data_link::options{.peer = peer->name,
                                                             .node = node,
                                                             .request_timeout = how_.request_timeout,
                                                             .message_bytes_max = how_.links.frame_bytes_max,
                                                             .narrows = !same_host});
  made->start([this, node](const std::string& why) {
    if (on_settled_) return settle(fmt::format("{} is gone: {}", rules_.find(node)->name, why));
    if (on_lost_) on_lost_(node, why);
  });
  {
    const std::lock_guard lock(mutex_);
    links_[node] = std::move(made);
  }
  rules_.made(node);
  settle_if_complete();
}

void data_plane::settle_if_complete() {
  if (!rules_.complete()) return;
  listener_.reset();  // no more links are needed
  settle({});
}

void data_plane::settle(const std::string& problem) {
  if (const auto report = std::exchange(on_settled_, nullptr)) report(problem);
}

data_link_ptr data_plane::link_to(std::uint32_t node) const {
  const std::lock_guard lock(mutex_);
  const auto known = links_.find(node);
  return known == links_.end() ? nullptr : known->second;
}

std::uint64_t data_plane::newest_step() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t newest = 0;
  for (const auto& [node, one] : links_) newest = std::max(newest, one->newest_step());
  return newest;
}

void data_plane::keep_alive() {
  const std::lock_guard lock(mutex_);
  for (const auto& [node, one] : links_) one->keep_alive();
}

/// Expires late requests periodically while the thread runs.
void data_plane::expire_later() {
  constexpr int looks_per_timeout = 20;
  constexpr std::chrono::milliseconds longest{1000};
  const auto interval = std::min<std::chrono::milliseconds>(longest, how_.request_timeout / looks_per_timeout);
  expiry_.expires_after(interval);
  expiry_.async_wait([this, interval](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    const auto now = std::chrono::steady_clock::now();
    const auto late = now - expiry_.expiry();
    for (const auto& [node, one] : links_) {
      if (late > interval) one->postpone(late);
      one->expire(now);
    }
    unit_->run();
    expire_later();
  });
}

}  // namespace troupe::nodes
