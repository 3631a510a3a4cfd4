#include "model/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace troupe {

struct byte_digest::hash_state {
  XXH3_state_t of_xxh3;
};

void byte_digest::release::operator()(hash_state* state) const { delete state; }

byte_digest::byte_digest() : state_(new hash_state) { XXH3_128bits_reset(&state_->of_xxh3); }

void byte_digest::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->of_xxh3, bytes.data(), bytes.size());
}

std::string byte_digest::hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(&state_->of_xxh3);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace troupe
