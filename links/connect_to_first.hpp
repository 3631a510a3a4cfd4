// The attempts at the addresses of a name, as RFC 8305 has them ("happy eyeballs").

#pragma once

#include <functional>
#include <vector>

#include "links/connect.hpp"
#include "links/tcp.hpp"

namespace troupe::links {

/// Returns the addresses so that IPv6 and IPv4 alternate, each family in its order, that of the first one first (RFC
/// 8305, 4).
std::vector<asio::ip::tcp::endpoint> alternated(std::vector<asio::ip::tcp::endpoint> addresses);

/// As `connect`, with the addresses of `name` (at least one). They are tried in order, the next one when the one before
/// has failed or has not answered for a part of a second; the first that connects is it, and the others end. A fault
/// has what each address answered.
void connect_to_first(boost::asio::io_context& io, const endpoint& name,
                      const std::vector<asio::ip::tcp::endpoint>& addresses, const credentials& mine,
                      const hello& about_me, const link_limits& links, const handshake_limits& handshakes,
                      std::function<void(result<link_ptr>)> done);

}  // namespace troupe::links
