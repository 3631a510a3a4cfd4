// How an embedding bag makes one row of several.

#pragma once

#include <cstdint>

namespace troupe {

enum class pooling : std::uint8_t { sum, mean, max };

}  // namespace troupe
