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

std::optional<msg::dtype> dtype_named(std::string_view name) {
  for (const msg::dtype type :
       {msg::dtype::f32, msg::dtype::f64, msg::dtype::i64, msg::dtype::u64, msg::dtype::f16, msg::dtype::bf16})
    if (msg::name_of(type) == name) return type;
  return {};
}

bool content_reader::whole(msg::tensor& x) {
  if (parts_.empty()) return false;
  const trace::content_part& part = parts_.front();
  const auto type = dtype_named(part.type);
  if (!type) return false;
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
  return digest_of_fields(one.fields) == one.fields_digest &&
         std::ranges::all_of(one.parts, [](const trace::content_part& part) {
           return digest_of(reinterpret_cast<const std::byte*>(part.bytes.data()), part.bytes.size()) == part.digest;
         });
}

}  // namespace troupe::protocol
