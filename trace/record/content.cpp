#include "trace/record/content.hpp"

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

bool get(std::string_view& from, std::string& text, memory_budget& budget) {
  std::uint64_t size = 0;
  if (!get(from, size) || from.size() < size || !budget.take(size)) return false;
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

bool read_content(std::string_view& from, content& to, memory_budget& budget) {
  std::uint32_t parts = 0;
  if (!get(from, to.id) || !get(from, to.actor) || !get(from, to.type) || !get(from, parts) ||
      !get(from, to.fields_digest) || !get(from, to.fields, budget))
    return false;
  // Each part has at least its three lengths and three numbers.
  constexpr std::size_t part_bytes_min = 6 * sizeof(std::uint64_t);
  if (parts > from.size() / part_bytes_min) return false;
  // Three times: a growing list reserves twice its size, and the recording has a list of its own.
  if (!budget.take(3 * sizeof(content) + parts * sizeof(content_part))) return false;
  to.parts.clear();
  to.parts.reserve(parts);
  for (std::uint32_t i = 0; i < parts; ++i) {
    content_part& part = to.parts.emplace_back();
    if (!get(from, part.name, budget) || !get(from, part.type, budget) || !get(from, part.rows) ||
        !get(from, part.cols) || !get(from, part.digest) || !get(from, part.bytes, budget))
      return false;
  }
  return true;
}

}  // namespace troupe::trace
