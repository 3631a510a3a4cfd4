// What a fuzz target gives: libFuzzer's entry point, and seeds made from real messages. In the preset `fuzz` it is
// linked with libFuzzer; everywhere else with replay.cpp, which feeds it its corpus and a fixed number of mutations of
// that.
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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace troupe::fuzz {

using bytes = std::vector<std::byte>;

/// Inputs to begin with, each with the name of its file: what `--make-corpus` writes.
std::vector<std::pair<std::string, bytes>> seeds();

/// Ends the process, as a crash would, if `holds` is false.
inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

inline std::span<const std::byte> as_bytes(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const std::byte*>(data), size};
}

}  // namespace troupe::fuzz
