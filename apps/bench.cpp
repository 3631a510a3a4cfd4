// `troupe bench`: measures lookups between processes on this machine, compared with a bare socket.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "apps/lookup.hpp"
#include "apps/subcommand.hpp"
#include "base/child_process.hpp"
#include "base/descriptor.hpp"
#include "base/json_text.hpp"
#include "base/result.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/links/tls_context.hpp"

namespace troupe::apps {
namespace {

constexpr const char* bench_token_variable = "TROUPE_TOKEN";

const std::vector<bench::lookup_size>& sizes() {
  static const std::vector<bench::lookup_size> all = {{16, 16, 4000}, {1024, 64, 2000}, {26'624, 64, 200}};
  return all;
}

/// Reads a descriptor up to the next line end, or to its end.
std::string read_line(int descriptor) {
  std::string line;
  for (char next = 0; ::read(descriptor, &next, 1) == 1 && next != '\n';) line += next;
  return line;
}

/// The process that serves the lookups. It ends at the end of its standard input; the destructor kills it.
class service_process {
 public:
  result<bench::lookup_service> start(const std::string& token, bool tls) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
      return run_fault("the system has no pipes left");
    input_ = descriptor::adopt(in[1]);
    output_ = descriptor::adopt(out[0]);
    std::vector<std::string> arguments = {"troupe", "bench", "lookup", "--serve"};
    if (tls) arguments.emplace_back("--tls");
    child_options options;
    options.in = in[0];
    options.out = out[1];
    options.variables = {fmt::format("{}={}", bench_token_variable, token)};
    auto child = child_process::start("/proc/self/exe", arguments, options);
    ::close(in[0]);
    ::close(out[1]);
    if (!child) return run_fault("a second process cannot be started: {}", child.error().message);
    child_.emplace(std::move(*child));
    const std::string line = read_line(output_.number());
    const auto data = links::parse_endpoint(line.substr(0, line.find(' ')));
    const auto tcp = links::parse_endpoint(line.substr(line.find(' ') + 1));
    if (!data || !tcp) return run_fault("the serving process did not start");
    return bench::lookup_service{*data, *tcp};
  }

 private:
  std::optional<child_process> child_;
  descriptor input_;
  descriptor output_;
};

/// Credentials for links with TLS by that token, or without TLS.
result<links::credentials> credentials_of(const std::string& token, bool tls) {
  if (!tls) return links::credentials{token};
  auto made = links::make_tls(links::expanded_key(token));
  if (!made) return run_fault(std::move(made.error().message));
  return links::credentials{token, std::move(*made)};
}

result<int> serve(bool tls, console& out) {
  const char* token = std::getenv(bench_token_variable);
  if (token == nullptr) return bad_input("--serve is for the process that 'troupe bench lookup' starts");
  TROUPE_TRY(mine, credentials_of(token, tls));
  const auto served = bench::serve_lookups(
      mine, {16, 64},
      [&out](const bench::lookup_service& where) {
        out.result(fmt::format("{} {}\n", links::to_string(where.data), links::to_string(where.tcp)));
      },
      [] { read_line(STDIN_FILENO); });
  if (!served) return tl::unexpected<fault>(served.error());
  return exit_done;
}

std::string lookup_event(const bench::lookup_figures& one) {
  json_line line("lookup");
  line.add("rows", one.size.rows).add("dim", one.size.dim).add("us", one.us).add("gb_per_s", one.gb_per_s);
  return line.add("tcp_us", one.tcp_us).add("tcp_gb_per_s", one.tcp_gb_per_s).take();
}

std::string lookup_table(const std::vector<bench::lookup_figures>& all) {
  std::string text = "  rows   dim        us     GB/s    TCP us  TCP GB/s\n";
  for (const bench::lookup_figures& one : all)
    text += fmt::format("{:>6} {:>5} {:>9.1f} {:>8.3f} {:>9.1f} {:>9.3f}\n", one.size.rows, one.size.dim, one.us,
                        one.gb_per_s, one.tcp_us, one.tcp_gb_per_s);
  return text;
}

result<int> run_bench(const CLI::App& app, const program_context& context) {
  const CLI::Option* what = app.get_option("WHAT");
  if (what->count() == 0 || what->results().front() != "lookup")
    return bad_input("troupe bench takes what to measure: lookup");
  const bool tls = app.get_option("--tls")->count() > 0;
  if (app.get_option("--serve")->count() > 0) return serve(tls, context.out);
  const std::string token = links::random_token();
  TROUPE_TRY(mine, credentials_of(token, tls));
  service_process service;
  TROUPE_TRY(where, service.start(token, tls));
  TROUPE_TRY(all, bench::measure_lookups(mine, where, sizes()));
  if (context.out.json())
    for (const bench::lookup_figures& one : all) context.out.result(lookup_event(one));
  else
    context.out.result(lookup_table(all));
  return exit_done;
}

}  // namespace

subcommand add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "measure lookups between processes beside a bare TCP socket");
  app->add_option("WHAT")->description("lookup: rows of a table in another process of this machine");
  app->add_flag("--serve")->group("");
  add_switch(*app, "tls", "lookups over an encrypted link; the bare socket stays what it is", "Network");
  add_switch(*app, "json", "the results as one JSON object a line", "Output");
  app->footer("Medians of many round trips. GB/s counts the bytes of the rows.");
  return {app, "lookup is all it takes", run_bench};
}

}  // namespace troupe::apps
