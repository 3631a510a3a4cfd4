// Serves the page of a made-up run for the browser's tests: `page_stage [OPTION...]` prints the page's address and
// serves until its standard input ends. With --live the run continues until then.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "page/access.hpp"
#include "page/http_server.hpp"
#include "page/run_page.hpp"
#include "tests/page/made_run.hpp"

namespace {

using namespace troupe;

/// With each reading, shows 20 more steps of a run, or all at once.
class made_source : public page::source {
 public:
  made_source(const page::made_run_options& how, bool live) : how_(how), live_(live) {}

  page::reading latest() override {
    if (!live_ && now_.what) return now_;
    if (live_) how_.steps += 1;
    trace::recording run = page::make_run(how_);
    now_.live = live_ || how_.loses_gradient;
    const trace::nanoseconds end = run.end();
    if (how_.loses_gradient)  // all have waited for 12 s
      for (trace::process_info& one : run.processes) one.last = end + 12'000'000'000;
    if (live_) {
      for (trace::process_info& one : run.processes) one.end = trace::ending::none;
      for (trace::actor_state& one : run.actors) one.alive = true;
    }
    now_.what = std::make_shared<const trace::recording>(std::move(run));
    ++now_.generation;
    return now_;
  }

 private:
  page::made_run_options how_;
  bool live_;
  page::reading now_;
};

}  // namespace

int main(int argc, char** argv) {
  page::made_run_options how;
  bool live = false;
  std::string token = page::make_token();
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] { return std::strtoull(i + 1 < argc ? argv[++i] : "0", nullptr, 10); };
    if (option == "--steps") how.steps = value();
    if (option == "--servers") how.servers = static_cast<std::uint16_t>(value());
    if (option == "--trainers") how.trainers = static_cast<std::uint16_t>(value());
    if (option == "--slow-from") how.slow_from = value();
    if (option == "--slow-to") how.slow_to = value();
    if (option == "--lose") how.loses_gradient = true;
    if (option == "--odd-names") how.has_odd_names = true;
    if (option == "--processes") how.has_processes = true;
    if (option == "--live") live = true;
  }
  page::run_page shown(std::make_unique<made_source>(how, live));
  page::http_server::options where;
  where.token = token;
  auto server =
      page::http_server::start(where, [&](const page::http_request& request) { return shown.answer(request); });
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().message.c_str());
    return 1;
  }
  std::printf("%s\n", (*server)->url().c_str());
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
}
