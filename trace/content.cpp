#include "trace/content.hpp"

#include <cstring>
#include <string_view>

namespace troupe::trace {

namespace {

template <class T>
void put(T number, std::string& to) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

void put(const std::string& text, std::string& to) {
  put(static_cast<std::uint64_t>(text.size()), to);
  to += text;
}

template <class T>
bool get(std::string_view& from, T& number) {
  if (from.size() < sizeof number) return false;
  std::memcpy(&number, from.data(), sizeof number);
  from.remove_prefix(sizeof number);
  return true;
}

bool get(std::string_view& from, std::string& text) {
  std::uint64_t size = 0;
  if (!get(from, size) || from.size() < size) return false;
  text = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

}  // namespace

void write_content(const content& what, std::string& to) {
  put(what.id, to);
  put(what.actor, to);
  put(what.type, to);
  put(static_cast<std::uint32_t>(what.parts.size()), to);
  put(what.fields_digest, to);
  put(what.fields, to);
  for (const content_part& part : what.parts) {
    put(part.name, to);
    put(part.type, to);
    put(part.rows, to);
    put(part.cols, to);
    put(part.digest, to);
    put(part.bytes, to);
  }
}

bool read_content(std::string_view& from, content& to) {
  std::uint32_t parts = 0;
  if (!get(from, to.id) || !get(from, to.actor) || !get(from, to.type) || !get(from, parts) ||
      !get(from, to.fields_digest) || !get(from, to.fields))
    return false;
  to.parts.clear();
  for (std::uint32_t i = 0; i < parts; ++i) {
    content_part& part = to.parts.emplace_back();
    if (!get(from, part.name) || !get(from, part.type) || !get(from, part.rows) || !get(from, part.cols) ||
        !get(from, part.digest) || !get(from, part.bytes))
      return false;
  }
  return true;
}

}  // namespace troupe::trace
