#include "page/web_files.hpp"

#include <map>

extern "C" {
struct troupe_web_file {
  const char* path;
  const char* begin;
  const char* end;
};
extern const troupe_web_file troupe_web_files[];  // web_files.S.in
}

namespace troupe::page {

namespace {

std::string_view content_type_of(std::string_view path) {
  if (path.ends_with(".html")) return "text/html; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

std::map<std::string_view, web_file> all_files() {
  std::map<std::string_view, web_file> all;
  for (const troupe_web_file* one = troupe_web_files; one->path != nullptr; ++one) {
    const std::string_view text(one->begin, static_cast<std::size_t>(one->end - one->begin));
    all[one->path] = {content_type_of(one->path), text};
  }
  return all;
}

}  // namespace

const web_file* find_web_file(std::string_view path) {
  static const std::map<std::string_view, web_file> all = all_files();
  const auto found = all.find(path == "/" ? "/index.html" : path);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace troupe::page
