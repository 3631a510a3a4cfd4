// What a fuzz target gives, in the namespace NAME_target of NAME.cpp: `run`, which takes an input, and `seeds`, made
// from real messages. In the preset `fuzz` each is a program with libFuzzer; everywhere else they are one program with
// replay.cpp, which feeds each its corpus and a fixed number of mutations of that.
//
// A target aborts when something that must hold does not.

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
  /// Inputs to begin with, each with the name of its file: what `--make-corpus` writes.
  std::vector<std::pair<std::string, bytes>> (*seeds)();
  void (*run)(std::span<const std::byte> given);
};

/// Ends the process, as a crash would, if `holds` is false.
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
/// All targets of the program; filled before `main`.
std::vector<target>& targets();

struct registration {
  explicit registration(const target& one) { targets().push_back(one); }
};

#define TROUPE_FUZZ_TARGET(NAME)                               \
  static const troupe::fuzz::registration NAME##_registration( \
      {#NAME, troupe::fuzz::NAME##_target::seeds, troupe::fuzz::NAME##_target::run});
#endif

}  // namespace troupe::fuzz
