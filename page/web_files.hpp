// The files of page/web, which a browser runs.

#pragma once

#include <string_view>

namespace troupe::page {

struct web_file {
  std::string_view content_type;
  std::string_view text;
};

/// Null if there is no such file. `/` is the page itself.
const web_file* find_web_file(std::string_view path);

}  // namespace troupe::page
