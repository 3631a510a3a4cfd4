#include "protocol/blob.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {

std::uint64_t digest_of(const std::byte* data, std::size_t size) { return XXH3_64bits(data, size); }

struct streamed_digest::hash_state {
  XXH3_state_t of_xxh3;
};

void streamed_digest::release::operator()(hash_state* state) const { delete state; }

streamed_digest::streamed_digest() : state_(new hash_state) { XXH3_64bits_reset(&state_->of_xxh3); }

void streamed_digest::add(const std::byte* data, std::size_t size) { XXH3_64bits_update(&state_->of_xxh3, data, size); }

std::uint64_t streamed_digest::value() const { return XXH3_64bits_digest(&state_->of_xxh3); }

}  // namespace troupe
