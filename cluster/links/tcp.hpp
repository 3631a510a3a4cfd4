// TCP sockets, for the implementation of links: it includes all of Asio's sockets.

#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <string>

#include "base/socket_address.hpp"
#include "cluster/links/endpoint.hpp"

namespace troupe::links {

namespace asio = boost::asio;

// The concrete executor type avoids type-erased calls.
using tcp_socket = asio::basic_stream_socket<asio::ip::tcp, asio::io_context::executor_type>;
using tcp_acceptor = asio::basic_socket_acceptor<asio::ip::tcp, asio::io_context::executor_type>;
using tcp_resolver = asio::ip::basic_resolver<asio::ip::tcp, asio::io_context::executor_type>;
using io_timer = asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                                            asio::io_context::executor_type>;

/// Makes a connected socket non-blocking, with TCP_NODELAY and close-on-exec: a copy of the socket in a child process
/// would hide this process's death.
void prepare(tcp_socket& socket);

/// Makes the kernel end the connection to a peer that acknowledges nothing, later than a link itself would.
void give_up_after(tcp_socket& socket, std::chrono::milliseconds dead_after);

void close_on_exec(int descriptor);

asio::ip::tcp::endpoint to_asio(const socket_address& address);

endpoint to_endpoint(const asio::ip::tcp::endpoint& address);

/// Formats a time as in "4.0 s".
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace troupe::links
