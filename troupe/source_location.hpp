// The caller's location in the user's code: std::source_location, or a replacement for compilers without it.

#pragma once

#include <version>

#ifdef __cpp_lib_source_location
#include <source_location>
#else
#include <cstdint>
#endif

namespace troupe {

#ifdef __cpp_lib_source_location
using std::source_location;
#else
/// The part that Troupe uses. (clang 14 lacks std::source_location.)
class source_location {
 public:
  static constexpr source_location current(const char* file = __builtin_FILE(),
                                           std::uint_least32_t line = __builtin_LINE()) {
    source_location here;
    here.file_ = file;
    here.line_ = line;
    return here;
  }

  constexpr const char* file_name() const { return file_; }
  constexpr std::uint_least32_t line() const { return line_; }

 private:
  const char* file_ = "";
  std::uint_least32_t line_ = 0;
};
#endif

}  // namespace troupe
