#include "protocol/blob.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe {

std::uint64_t digest_of(const std::byte* data, std::size_t size) { return XXH3_64bits(data, size); }

}  // namespace troupe
