#include "cluster/launch/network_options.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/text.hpp"
#include "cluster/links/tls_context.hpp"

namespace troupe::launch {

namespace {

constexpr const char* files_together = "TLS by certificates takes --tls-cert, --tls-key and --tls-ca together";

/// TLS by certificates if they are given; else by the token.
result<links::tls_ptr> read_tls(const CLI::App& app, const std::string& token) {
  const auto certificate = given_text(app, "tls-cert");
  const auto key = given_text(app, "tls-key");
  const auto ca = given_text(app, "tls-ca");
  const bool any = certificate || key || ca;
  if (any && (!certificate || !key || !ca))
    return bad_input("{} is missing: {}",
                     !certificate ? "--tls-cert"
                     : !key       ? "--tls-key"
                                  : "--tls-ca",
                     files_together);
  auto made =
      any ? links::make_tls(links::tls_files{*certificate, *key, *ca}) : links::make_tls(links::stretched_key(token));
  if (!made) return bad_input(std::move(made.error().message));
  return std::move(*made);
}

/// Refuses options that conflict with --insecure, or need certificates.
result<void> check_combination(const CLI::App& app, bool insecure) {
  for (const char* name : {"tls-cert", "tls-key", "tls-ca", "tls-name"})
    if (insecure && given_text(app, name))
      return bad_input("--insecure: does without TLS, for which --{} is; leave out one of them", name);
  if (given_text(app, "tls-name") && !given_text(app, "tls-cert"))
    return bad_input("--tls-name: is the name in a certificate, which is missing; {}", files_together);
  return {};
}

/// Stores the token; warns if it is weak.
void take_token(nodes::network_options& options, std::string token, console& out) {
  if (const auto weak = links::weakness_of(token)) out.report("warning: " + *weak);
  options.mine.token = std::move(token);
}

}  // namespace

result<void> read_timeouts(const CLI::App& app, nodes::network_options& options) {
  constexpr double day = 86'400;
  TROUPE_SET(options.dead_after, read_seconds(app, "dead-after", options.dead_after, 0.5, day));
  TROUPE_SET(options.request_timeout, read_seconds(app, "request-timeout", options.request_timeout, 0.5, day));
  return {};
}

result<void> read_own_token(const CLI::App& app, nodes::network_options& options, console& out) {
  const auto file = given_text(app, "token-file");
  const char* variable = std::getenv("TROUPE_TOKEN");
  if (!file && (variable == nullptr || *variable == '\0')) return {};
  auto token = links::read_token(file);
  if (!token) return bad_input(std::move(token.error().message));
  take_token(options, std::move(*token), out);
  return {};
}

void add_network_options(CLI::App& app, bool connects) {
  add_options(app, option_set::token);
  add_options(app, option_set::certificates);
  if (connects) add_options(app, option_set::certificate_name);
  add_options(app, option_set::insecure);
  add_options(app, option_set::timeouts);
}

std::string given_network_options(const CLI::App& app) {
  std::string text;
  for (const option_info& one : option_table()) {
    const CLI::Option* given = app.get_option_no_throw("--" + std::string(one.name));
    const bool is_for_all = std::string_view(one.group) == "Network" && one.set != option_set::certificate_name;
    if (given == nullptr || given->count() == 0 || !is_for_all) continue;
    text += fmt::format(" --{}", one.name);
    if (one.value_name != nullptr) text += " " + shell_word(given->results().front());
  }
  return text;
}

result<std::chrono::milliseconds> read_seconds(const CLI::App& app, const std::string& name,
                                               std::chrono::milliseconds otherwise, double least, double most) {
  const auto text = given_text(app, name);
  if (!text) return otherwise;
  const auto seconds = parse_number<double>(*text);
  if (!seconds || !(*seconds >= least && *seconds <= most))
    return bad_input("--{} {}: must be a number of seconds between {:g} and {:g}", name, printable(*text), least, most);
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
}

result<links::endpoint> read_endpoint(const std::string& what, const std::string& text) {
  if (auto where = links::parse_endpoint(text)) return *where;
  return bad_input("{} {}: must be HOST:PORT, as in 10.0.0.1:7000", what, printable(text));
}

result<nodes::network_options> read_network_options(const CLI::App& app, console& out) {
  nodes::network_options options;
  auto token = links::read_token(given_text(app, "token-file"));
  if (!token) return bad_input(std::move(token.error().message));
  take_token(options, std::move(*token), out);
  const bool insecure = app.get_option("--insecure")->count() > 0;
  TROUPE_DO(check_combination(app, insecure));
  if (!insecure) TROUPE_SET(options.mine.tls, read_tls(app, options.mine.token));
  options.mine.peer_name = given_text(app, "tls-name").value_or("");
  TROUPE_DO(read_timeouts(app, options));
  return options;
}

}  // namespace troupe::launch
