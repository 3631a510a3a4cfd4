#include "cluster/launch/text.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/text.hpp"

namespace troupe::launch {

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (column > 0 && column + 1 + end > width) {
      out += '\n';
      column = 0;
    }
    if (column > 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    if (end < text.size() && text[end] == '\n') {
      out += '\n';
      column = 0;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return text;
  if (harmless(text) == text) {
    std::string word = "'";
    for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
  }
  std::string quoted;  // with the escapes that shells read between $' and '
  for (const char c : text) quoted += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return "$'" + harmless(quoted) + "'";
}

std::string about_folder(const char* option, const std::string& folder, const std::string& why) {
  const std::string name = printable_path(folder);
  std::string_view rest = why;
  if (rest.starts_with(name + ": ")) rest.remove_prefix(name.size() + 2);
  return fmt::format("{} {}: {}", option, name, rest);
}

std::size_t terminal_columns(int descriptor, std::size_t otherwise) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  if (const char* text = std::getenv("COLUMNS")) {
    std::size_t columns = 0;
    const char* end = text + std::strlen(text);
    if (std::from_chars(text, end, columns).ptr == end && columns > 0) return columns;
  }
  return otherwise;
}

}  // namespace troupe::launch
