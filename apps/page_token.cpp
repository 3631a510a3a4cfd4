#include "apps/page_token.hpp"

#include <cstdlib>

#include "links/credentials.hpp"
#include "page/access.hpp"

namespace troupe::apps {

result<std::string> read_page_token(const std::optional<std::string>& file) {
  constexpr const char* variable = "TROUPE_PAGE_TOKEN";
  std::string token;
  if (file) {
    auto read = links::read_token(file);
    if (!read) return bad_input(std::move(read.error().message));
    token = std::move(*read);
  } else if (const char* text = std::getenv(variable)) {
    token = text;
  }
  if (token.empty() || page::is_token(token)) return token;
  return bad_input("{}: a token of {} bytes; a page's has 8 to 128 letters, digits, '-' and '_'",
                   file ? "token file " + *file : variable, token.size());
}

}  // namespace troupe::apps
