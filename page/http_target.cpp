#include <fmt/format.h>

#include <boost/url/encode.hpp>
#include <boost/url/parse.hpp>
#include <boost/url/rfc/pchars.hpp>
#include <boost/url/url.hpp>

#include "base/text.hpp"
#include "page/http_server.hpp"

namespace troupe::page {

std::string_view http_request::text(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string_view() : found->second;
}

namespace {

/// Escapes characters that browsers leave although RFC 3986 requires an escape, such as `|` in a query. Keeps escapes.
std::string escaped(std::string_view target) {
  std::vector<std::string> parts;
  for (const std::string_view part : split(target, '%'))
    parts.push_back(boost::urls::encode({part.data(), part.size()}, boost::urls::pchars + '/' + '?'));
  return fmt::format("{}", fmt::join(parts, "%"));
}

}  // namespace

std::optional<http_request> read_target(std::string_view target) {
  const std::string text = escaped(target);
  const auto read = boost::urls::parse_origin_form(text);
  if (!read) return std::nullopt;
  http_request request{read->path(), {}};
  for (const auto& one : read->params()) request.query[one.key] = one.value;
  return request;
}

std::string without_parameter(std::string_view target, const std::string& name) {
  boost::urls::url rest(*boost::urls::parse_origin_form(escaped(target)));
  rest.params().erase(name);
  if (rest.params().empty()) rest.remove_query();
  return rest.buffer();
}

http_response http_response::of(unsigned status, std::string content_type, std::string text) {
  return {status, std::move(content_type), std::make_shared<const std::string>(std::move(text)), {}};
}

}  // namespace troupe::page
