// TLS is not here yet: contexts cannot be made, so that nobody takes a plain link for an encrypted one.

#include "links/credentials.hpp"
#include "links/transport.hpp"

namespace troupe {

std::unique_ptr<transport> tls_transport(int socket, boost::asio::ssl::context&, link_side) {
  return plain_transport(socket);
}

link_result<std::shared_ptr<boost::asio::ssl::context>> make_tls(const tls_files&) {
  return link_failed(link_errc::bad_setting, "TLS is not implemented yet");
}

}  // namespace troupe
