// A fuzz target defines, in the namespace NAME_target of NAME.cpp, `run`, which handles an input, and `seeds`, made
// from real messages. In the preset `fuzz` each is a libFuzzer program; otherwise they form one program with
// replay.cpp, which runs each with its corpus and a fixed number of mutations.
//
// A target aborts when an invariant is violated.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace troupe::fuzz {

using bytes = std::vector<std::byte>;

struct target {
  const char* name;
  /// Initial inputs, each with its file's name: the output of `--make-corpus`.
  std::vector<std::pair<std::string, bytes>> (*seeds)();
  void (*run)(std::span<const std::byte> given);
};

/// Ends the process like a crash if `holds` is false.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

#ifdef TROUPE_FUZZ
#define TROUPE_FUZZ_TARGET(NAME)                                                      \
  extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) { \
    troupe::fuzz::NAME##_target::run(troupe::fuzz::as_bytes(data, size));             \
    return 0;                                                                         \
  }
#else
/// All targets of the program; complete before `main`.
std::vector<target>& targets();

struct registration {
  explicit registration(const target& one) { targets().push_back(one); }
};

#define TROUPE_FUZZ_TARGET(NAME)                               \
  static const troupe::fuzz::registration NAME##_registration( \
      {#NAME, troupe::fuzz::NAME##_target::seeds, troupe::fuzz::NAME##_target::run});
#endif

}  // namespace troupe::fuzz
