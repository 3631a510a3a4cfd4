// Files with secrets, which only their owner may read or write.

#pragma once

#include <cstddef>
#include <string>

#include "base/result.hpp"

namespace troupe::links {

/// Returns the content, up to `bytes_max` bytes; of a longer file one byte more, so that the caller notices. Refuses a
/// file that users other than its owner may read or write, with advice. Faults begin with `what` and the path, as in
/// `token file secrets/token: ...`.
result<std::string> read_private_file(const std::string& what, const std::string& path, std::size_t bytes_max);

}  // namespace troupe::links
