// A file with rows.

#pragma once

#include <memory>
#include <string>

#include "model/input_file.hpp"

namespace troupe::model {

/// Opens a file with rows: a regular one, since it is read more than once, that is not empty.
result<std::shared_ptr<const input_file>> open_data_file(const std::string& path);

}  // namespace troupe::model
