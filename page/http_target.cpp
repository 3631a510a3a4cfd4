#include <cctype>

#include "page/http_server.hpp"

namespace troupe::page {

namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const int lower = std::tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

std::string decoded(std::string_view text, bool plus_is_space) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit_of(text[i + 1]) >= 0 && digit_of(text[i + 2]) >= 0) {
      plain += static_cast<char>(digit_of(text[i + 1]) * 16 + digit_of(text[i + 2]));
      i += 2;
    } else {
      plain += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

}  // namespace

std::string_view http_request::text(const std::string& name) const {
  const auto found = query.find(name);
  return found == query.end() ? std::string_view() : found->second;
}

http_request read_target(std::string_view target) {
  http_request request;
  const auto mark = std::min(target.find('?'), target.size());
  request.path = decoded(target.substr(0, mark), false);
  std::string_view rest = target.substr(std::min(mark + 1, target.size()));
  while (!rest.empty()) {
    const auto end = std::min(rest.find('&'), rest.size());
    const std::string_view one = rest.substr(0, end);
    const auto equals = std::min(one.find('='), one.size());
    request.query[decoded(one.substr(0, equals), true)] = decoded(one.substr(std::min(equals + 1, one.size())), true);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return request;
}

http_response http_response::of(unsigned status, std::string content_type, std::string text) {
  return {status, std::move(content_type), std::make_shared<const std::string>(std::move(text)), {}};
}

}  // namespace troupe::page
