#include "base/digest.hpp"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

namespace troupe {

std::uint64_t digest_of(const std::byte* data, std::size_t size) { return XXH3_64bits(data, size); }

struct running_digest::hash_state {
  XXH3_state_t of_xxh3;
};

void running_digest::release::operator()(hash_state* state) const { delete state; }

running_digest::running_digest() : state_(new hash_state) { restart(); }

// The 64-bit and 128-bit digests share one state: they differ only in the final step.
void running_digest::restart() { XXH3_64bits_reset(&state_->of_xxh3); }

void running_digest::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(&state_->of_xxh3, bytes.data(), bytes.size());
}

std::uint64_t running_digest::value() const { return XXH3_64bits_digest(&state_->of_xxh3); }

std::string running_digest::hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(&state_->of_xxh3);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace troupe
