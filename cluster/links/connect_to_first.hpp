// Tries the addresses of a name in turn, as RFC 8305 describes ("happy eyeballs").

#pragma once

#include <functional>
#include <vector>

#include "cluster/links/connect.hpp"
#include "cluster/links/tcp.hpp"

namespace troupe::links {

/// Reorders the addresses so that IPv6 and IPv4 alternate, beginning with the first one's family; each family keeps its
/// order (RFC 8305, 4).
std::vector<asio::ip::tcp::endpoint> alternated(std::vector<asio::ip::tcp::endpoint> addresses);

/// As `connect`, with the addresses of `name` (at least one). Tries them in order, the next one when the previous one
/// has failed or has not answered for a fraction of a second; uses the first that connects and ends the others. A fault
/// lists the result of each address.
void connect_to_first(boost::asio::io_context& io, const endpoint& name,
                      const std::vector<asio::ip::tcp::endpoint>& addresses, const credentials& mine,
                      const hello& about_me, const link_limits& links, const handshake_limits& handshakes,
                      std::function<void(result<link_ptr>)> done);

}  // namespace troupe::links
