#include "troupe/packed.hpp"

#include "troupe/error.hpp"

namespace troupe::detail {

void unpacker::malformed() {
  throw error(error_kind::run,
              "a call whose arguments are not those of the method: all processes run the same program");
}

void unpacker::bytes(void* to, std::size_t size) {
  if (from_.fields.size() - at_ < size) malformed();
  std::memcpy(to, from_.fields.data() + at_, size);
  at_ += size;
}

std::size_t unpacker::length() {
  std::uint64_t count = 0;
  bytes(&count, sizeof count);
  if (count > from_.fields.size() - at_) malformed();
  return count;
}

std::string unpacker::text() {
  const std::size_t size = length();
  std::string made = from_.fields.substr(at_, size);
  at_ += size;
  return made;
}

tensor unpacker::next_tensor() {
  const auto dimensions = unpack<std::uint8_t>(*this);
  if (dimensions == UINT8_MAX) return {};
  if (dimensions > shape::dimensions_max || tensors_ >= from_.tensors.size()) malformed();
  shape lengths = shape::of(std::vector<std::size_t>(dimensions));
  for (std::size_t i = 0; i < dimensions; ++i) lengths.set(i, unpack<std::uint64_t>(*this));
  const tensor& flat = from_.tensors[tensors_++];
  std::size_t count = 1;
  for (std::size_t i = 0; i < dimensions; ++i)
    if (__builtin_mul_overflow(count, lengths[i], &count)) malformed();
  if (flat.count() != count) malformed();
  return {lengths, flat.type(), flat.owner()};
}

std::shared_ptr<const runtime::reference> unpacker::next_handle() {
  const auto place = unpack<std::uint32_t>(*this);
  if (place >= from_.handles.size()) malformed();
  return from_.handles[place];
}

void pack_tensor(packed& to, tensor what) {
  if (what.owner() == nullptr) return pack(to, std::uint8_t{UINT8_MAX});
  const shape lengths = what.shape();
  pack(to, static_cast<std::uint8_t>(lengths.dimensions()));
  for (std::size_t i = 0; i < lengths.dimensions(); ++i) pack(to, static_cast<std::uint64_t>(lengths[i]));
  to.tensors.push_back(what.owner().use_count() > 1 ? what.clone() : std::move(what));
}

void pack_handle(packed& to, std::shared_ptr<const runtime::reference> what) {
  if (what == nullptr) throw error(error_kind::input, "an argument is a handle of no module");
  pack(to, static_cast<std::uint32_t>(to.handles.size()));
  to.handles.push_back(std::move(what));
}

}  // namespace troupe::detail
