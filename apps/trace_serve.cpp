// `troupe trace serve`.

#include <chrono>
#include <thread>

#include "apps/trace_answers.hpp"
#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/launch/trace_options.hpp"
#include "cluster/nodes/trace_sources.hpp"
#include "page/access.hpp"
#include "page/live_page.hpp"

namespace troupe::apps {

result<int> serve_page(const question& asked) {
  page::live_page::options how;
  TROUPE_SET(how.from, sources_of(asked, asked.arguments, nodes::share_of_two_readings));
  how.host = given_text(asked.app, "listen").value_or("127.0.0.1");
  if (const auto text = given_text(asked.app, "port")) {
    const auto port = parse_number<std::uint16_t>(*text);
    if (!port) return bad_input("--port {}: must be a port, 0 to 65535 (0: any that is free)", one_line(*text));
    how.port = *port;
  }
  const auto token_file = given_text(asked.app, "token-file");
  if (const auto token = given_text(asked.app, "token")) {
    if (token_file) return bad_input("--token: goes without --token-file, which is the better one");
    if (!page::is_token(*token))
      return bad_input("--token: must be 8 to 128 letters, digits, '-' and '_'");  // does not quote the token
    how.token = *token;
    asked.out.warning(
        "--token: all users of this machine can read it in the list of processes; --token-file FILE and the variable "
        "TROUPE_PAGE_TOKEN are for the owner alone");
  } else {
    TROUPE_SET(how.token, read_page_token(token_file));
  }
  // A wrong folder is an error here, instead of an empty page.
  {
    const auto read = trace::read_recording(how.from);
    if (!read) return bad_input(one_line(read.error().message));
    report_attempt(asked, how.from, *read);
  }
  const stop_request& stop = stop_on_signals();
  const bool is_local = page::is_loopback(how.host);
  const auto served = page::live_page::start(std::move(how));
  if (!served) return run_fault(one_line(served.error().message));
  if (!is_local)
    asked.out.warning(
        "the page and its token travel in plain text: beyond this machine, --listen 127.0.0.1 and ssh -L is safer");
  const std::string url = (*served)->url();
  asked.out.result(asked.out.json() ? json_line("serving").add("url", url).take() : url + "\n");
  while (!stop.requested()) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return exit_done;
}

}  // namespace troupe::apps
