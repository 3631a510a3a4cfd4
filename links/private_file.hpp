// Files of secrets, which nobody but their owner may read or write.

#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace troupe::links {

/// The whole content, up to `bytes_max` bytes; of a longer file one byte more, so that its length shows. A file that
/// others than its owner may read or write is refused with the remedy. Faults begin with `what` and the path, as in
/// `token file secrets/token: ...`.
result<std::string> read_private_file(const std::string& what, const std::string& path, std::size_t bytes_max);

}  // namespace troupe::links
