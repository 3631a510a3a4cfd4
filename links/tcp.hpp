// TCP sockets as links use them. Not for those who use links: it includes all of Asio's sockets.

#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "links/endpoint.hpp"

namespace troupe::links {

namespace asio = boost::asio;

// With the executor's type known, no call goes through a type-erased one.
using tcp_socket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;
using tcp_acceptor = asio::basic_socket_acceptor<asio::ip::tcp, asio::io_context::executor_type>;
using tcp_resolver = asio::ip::basic_resolver<asio::ip::tcp, asio::io_context::executor_type>;
using io_timer = asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                                            asio::io_context::executor_type>;

/// Makes a connected socket one that never blocks, does not wait for more to send, and is not inherited by programs
/// that this process starts: an end that lived on in one of them would hide that we are gone.
void prepare(tcp_socket& socket);

/// Has the kernel give up on a peer that acknowledges nothing, later than a link itself would.
void give_up_after(tcp_socket& socket, std::chrono::milliseconds dead_after);

void close_on_exec(int descriptor);

/// Listens at the first of `addresses`, those of one name, that this machine has. One that somebody else has taken is a
/// fault, and no reason to try the next: who connects by the name would find the other one. Faults: address_in_use,
/// bad_setting; they name the address.
result<tcp_acceptor> listen_at_first(asio::io_context& io, const std::vector<asio::ip::tcp::endpoint>& addresses);

endpoint to_endpoint(const asio::ip::tcp::endpoint& address);

/// "4.0 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace troupe::links
