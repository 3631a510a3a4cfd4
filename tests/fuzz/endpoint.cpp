// Addresses that peers send as text: a parsed address must be parsed again from its own text.

#include "cluster/links/endpoint.hpp"

#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::endpoint_target {

std::vector<std::pair<std::string, bytes>> seeds() {
  std::vector<std::pair<std::string, bytes>> all;
  const auto add = [&all](const char* name, const std::string& text) {
    const auto content = std::as_bytes(std::span(text));
    all.emplace_back(name, bytes(content.begin(), content.end()));
  };
  add("name", "host-1.example:7000");
  add("ipv4", "127.0.0.1:0");
  add("ipv6", "[::1]:65535");
  add("ipv4_in_ipv6", "[::ffff:127.0.0.1]:1");
  add("scope", "[fe80::1%eth0]:80");
  add("any_case", "LocalHost:00080");
  return all;
}

void run(std::span<const std::byte> given) {
  const std::string text(reinterpret_cast<const char*>(given.data()), given.size());
  links::is_loopback(text);
  const auto where = links::parse_endpoint(text);
  if (!where) return;
  links::is_loopback(where->host);
  must(links::parse_endpoint(links::to_string(*where)) == where, "an address is written as another one");
}

}  // namespace troupe::fuzz::endpoint_target

TROUPE_FUZZ_TARGET(endpoint)
