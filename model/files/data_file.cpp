#include "model/files/data_file.hpp"

#include <utility>

#include "base/result.hpp"

namespace troupe::model {

result<std::shared_ptr<const input_file>> open_data_file(const std::string& path) {
  TROUPE_TRY(file, input_file::open(path, "a data file"));
  if (file.length() == 0) return bad_input("{}: empty: must have at least one row", file.name());
  return std::make_shared<const input_file>(std::move(file));
}

}  // namespace troupe::model
