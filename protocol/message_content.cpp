#include "protocol/message_content.hpp"

#include <utility>

#include "base/digest.hpp"

namespace troupe::protocol {

bool content_writer::begin_field(caf::string_view name) {
  levels_.push_back({std::string(name.data(), name.size())});
  return true;
}

bool content_writer::end_field() {
  levels_.pop_back();
  return true;
}

bool content_writer::begin_sequence(std::size_t size) {
  if (!levels_.empty()) levels_.back().is_list = true;
  return field_saver::begin_sequence(size);
}

bool content_writer::end_sequence() {
  if (!levels_.empty()) levels_.back().is_list = false;
  return true;
}

/// An object in a list is named by its index.
bool content_writer::enter_element() {
  levels_.push_back({});
  return true;
}

bool content_writer::leave_element() {
  levels_.pop_back();
  if (!levels_.empty() && levels_.back().is_list) ++levels_.back().next;
  return true;
}

bool content_writer::whole(const msg::tensor& x) {
  add_part(x.bytes, std::string(name_of(x.type)), x.rows, x.cols);
  if (!levels_.empty() && levels_.back().is_list) ++levels_.back().next;
  return true;
}

bool content_writer::bulk(const msg::blob& x) {
  add_part(x, "bytes", x.size(), 1);
  return true;
}

std::string content_writer::path() const {
  std::string text;
  for (const level& one : levels_) {
    if (!one.name.empty() && !text.empty()) text += '.';
    text += one.name;
    if (one.is_list) text.append("[").append(std::to_string(one.next)).append("]");
  }
  return text;
}

void content_writer::add_part(const msg::blob& numbers, std::string type, std::uint64_t rows, std::uint64_t cols) {
  const msg::blob bytes = numbers.on_host();
  trace::content_part& part = to_.parts.emplace_back();
  part.name = path();
  part.type = std::move(type);
  part.rows = rows;
  part.cols = cols;
  part.digest = digest_of(bytes.data(), bytes.size());
  if (with_bytes_) part.bytes.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

}  // namespace troupe::protocol
