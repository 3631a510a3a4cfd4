#include "apps/trace_serve.hpp"

#include <chrono>
#include <thread>

#include "apps/page_token.hpp"
#include "apps/signals.hpp"
#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "page/access.hpp"
#include "page/live_page.hpp"

namespace troupe::apps {

result<int> serve_trace(const serve_order& order, console& out) {
  page::live_page::options how;
  how.from = order.from;
  how.host = order.listen.value_or("127.0.0.1");
  if (order.port) {
    const auto port = parse_number<std::uint16_t>(*order.port);
    if (!port) return bad_input("--port {}: must be a port, 0 to 65535 (0: any that is free)", one_line(*order.port));
    how.port = *port;
  }
  if (order.token && order.token_file) return bad_input("--token: goes without --token-file, which is the better one");
  if (order.token) {
    if (!page::is_token(*order.token))
      return bad_input("--token: must be 8 to 128 letters, digits, '-' and '_'");  // without the token
    how.token = *order.token;
    out.warning(
        "--token: all users of this machine can read it in the list of processes; --token-file FILE and the variable "
        "TROUPE_PAGE_TOKEN are for the owner alone");
  } else {
    TROUPE_TRY(token, read_page_token(order.token_file));
    how.token = std::move(token);
  }
  // A wrong folder is an error here, instead of an empty page.
  if (const auto read = trace::read_recording(order.from); !read) return bad_input(one_line(read.error().message));
  const cluster::stop_request& stop = stop_on_signals();
  const auto served = page::live_page::start(std::move(how));
  if (!served) return run_fault(one_line(served.error().message));
  if (!page::is_loopback(order.listen.value_or("127.0.0.1")))
    out.warning(
        "the page and its token travel in plain text: beyond this machine, --listen 127.0.0.1 and ssh -L is safer");
  const std::string url = (*served)->url();
  out.result(out.json() ? json_line("serving").add("url", url).take() : url + "\n");
  while (!stop.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return exit_done;
}

}  // namespace troupe::apps
