// Runs the examples as a user does.

#pragma once

#include <cstdio>
#include <string>

namespace troupe::test {

/// Returns an example's standard output, followed by its status if that is not 0.
inline std::string output_of(const std::string& example, const std::string& options = "") {
  const std::string command = std::string(TROUPE_EXAMPLES) + "/example_" + example + " --quiet " + options;
  std::FILE* const from = ::popen(command.c_str(), "r");
  if (from == nullptr) return "cannot be started";
  std::string text;
  for (int c = std::fgetc(from); c != EOF; c = std::fgetc(from)) text += static_cast<char>(c);
  const int status = ::pclose(from);
  return status == 0 ? text : text + "status " + std::to_string(status);
}

}  // namespace troupe::test
