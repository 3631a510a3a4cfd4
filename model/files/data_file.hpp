// Files with rows.

#pragma once

#include <memory>
#include <string>

#include "model/input_file.hpp"

namespace troupe::model {

/// Opens a file with rows. Faults: it is empty, or no regular file, which can be read several times.
result<std::shared_ptr<const input_file>> open_data_file(const std::string& path);

}  // namespace troupe::model
