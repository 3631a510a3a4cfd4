#include "model/files/line_reader.hpp"

#include <utility>

#include "base/result.hpp"

namespace troupe::model {

namespace {

// Small enough to stay in a core's cache between reading and parsing.
constexpr std::size_t chunk = std::size_t{256} << 10;

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_blank(std::string_view line) {
  return line.empty() || (line.front() <= ' ' && line.find_first_not_of(" \t\r") == line.npos);
}

/// Returns whether a text begins like UTF-16, in either byte order.
bool is_utf_16(std::string_view text) { return text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"); }

}  // namespace

line_reader::line_reader(std::unique_ptr<byte_source> from, std::string file, std::uint64_t offset,
                         std::uint64_t lines_before)
    : from_(std::move(from)), file_(std::move(file)), buffer_(chunk + padding), offset_(offset), line_(lines_before) {}

result<std::optional<std::string_view>> line_reader::next() {
  for (;;) {
    const char* first = buffer_.data() + scanned_;
    const auto* found = static_cast<const char*>(std::memchr(first, '\n', end_ - scanned_));
    scanned_ = found != nullptr ? static_cast<std::size_t>(found - buffer_.data()) : end_;
    if (scanned_ - begin_ > line_max)
      return bad_input("{} line {}: more than {} bytes: must be at most as many", file_, line_ + 1, line_max);
    if (found != nullptr || (ended_ && begin_ < end_)) {
      const std::string_view text = found != nullptr ? take(scanned_, scanned_ + 1) : take(end_, end_);
      if (!is_blank(text)) return ++returned_, text;
      if (blank_lines_++ == 0) first_blank_line_ = line_;
    } else if (ended_) {
      return std::optional<std::string_view>();
    } else if (const auto got = refill(); !got) {
      return tl::unexpected(got.error());
    }
  }
}

// Returns the line up to `end`; the next line begins at `behind`.
std::string_view line_reader::take(std::size_t end, std::size_t behind) {
  std::string_view text(buffer_.data() + begin_, end - begin_);
  begin_ = scanned_ = behind;
  if (text.ends_with('\r')) text.remove_suffix(1);
  if (line_++ == 0 && text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  return text;
}

// Moves the incomplete line to the buffer's beginning and reads more bytes after it.
result<std::size_t> line_reader::refill() {
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  offset_ += begin_;
  end_ -= begin_;
  scanned_ = end_;
  begin_ = 0;
  if (buffer_.size() < end_ + chunk + padding) buffer_.resize(end_ + chunk + padding);
  char* fresh = buffer_.data() + end_;
  auto got = from_->read(fresh, chunk);
  if (!got) return got;
  ended_ = *got == 0;
  if (const void* zero = std::memchr(fresh, 0, *got)) {
    if (line_ == 0 && is_utf_16({buffer_.data(), end_ + *got}))
      return bad_input("{}: is UTF-16: must be UTF-8; write it anew, such as by iconv -f UTF-16 -t UTF-8", file_);
    const auto lines = std::count(buffer_.data(), static_cast<char*>(const_cast<void*>(zero)), '\n');
    return bad_input("{} line {}: a zero byte: must be text, plain or compressed by gzip or zstd", file_,
                     line_ + 1 + static_cast<std::uint64_t>(lines));
  }
  end_ += *got;
  return got;
}

}  // namespace troupe::model
