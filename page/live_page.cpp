#include "page/live_page.hpp"

#include <boost/asio/ip/address.hpp>
#include <utility>

#include "page/access.hpp"

namespace troupe::page {

live_page::live_page(trace::sources from) : page_(std::make_unique<recorded>(std::move(from))) {}

result<std::unique_ptr<live_page>> live_page::start(options how) {
  if (how.token.empty()) how.token = make_token();
  if (!is_token(how.token)) return bad_input("a token is 8 to 128 letters, digits, '-' and '_'");
  std::unique_ptr<live_page> made(new live_page(std::move(how.from)));
  http_server::options where;
  where.host = how.host;
  where.port = how.port;
  where.token = how.token;
  TROUPE_SET(made->server_, http_server::start(where, [&page = made->page_](const http_request& request) {
               return page.answer(request);
             }));
  return made;
}

bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  return host == "localhost" || (!error && address.is_loopback());
}

}  // namespace troupe::page
