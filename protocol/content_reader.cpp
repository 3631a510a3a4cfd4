#include "protocol/content_reader.hpp"

#include <algorithm>
#include <vector>

#include "base/digest.hpp"
#include "protocol/message_content.hpp"

namespace troupe::protocol {

namespace {

msg::blob bytes_of(const trace::content_part& part) {
  return msg::blob::own(std::vector<char>(part.bytes.begin(), part.bytes.end()));
}

}  // namespace

bool content_reader::whole(msg::tensor& x) {
  if (parts_.empty()) return false;
  const trace::content_part& part = parts_.front();
  const auto type = dtype_named(part.type);
  if (!type || !is_message_type(*type)) return false;
  x = msg::tensor(*type, part.rows, part.cols, bytes_of(part));
  parts_ = parts_.subspan(1);
  return x.consistent();
}

bool content_reader::bulk(msg::blob& x) {
  if (parts_.empty()) return false;
  x = bytes_of(parts_.front());
  parts_ = parts_.subspan(1);
  return true;
}

bool is_kept(const trace::content& one) {
  const auto fits = [](const std::string& bytes, std::uint64_t digest) {
    return digest_of(std::as_bytes(std::span(bytes))) == digest;
  };
  return fits(one.fields, one.fields_digest) &&
         std::ranges::all_of(one.parts, [&](const auto& part) { return fits(part.bytes, part.digest); });
}

}  // namespace troupe::protocol
