// A test's cluster, in place of a program's.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/library/arguments.hpp"
#include "troupe/troupe.hpp"

namespace troupe::test {

/// The cluster of a program with these arguments and these options of its own.
class made_cluster : private arguments, public cluster {
 public:
  made_cluster(std::initializer_list<std::string> given = {}) : made_cluster(std::vector<std::string>(given)) {}
  explicit made_cluster(std::vector<std::string> given, std::vector<option> own = {})
      : arguments(std::move(given)), cluster(count(), values(), std::move(own)) {}
};

}  // namespace troupe::test
