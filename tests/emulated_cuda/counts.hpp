// Counts of a test's calls to the emulated CUDA.

#pragma once

#include <cstdint>
#include <optional>

#include "kernels/cuda_modules.hpp"

namespace troupe::emulated_cuda {

struct counts_so_far {
  std::uint64_t launches = 0;  ///< kernel launches; a sort or a running sum counts as one
  std::uint64_t waits = 0;     ///< waits of the host for a stream or an event
  std::uint64_t uploads = 0;   ///< copies from the host to a device
  /// Graphs unfinished on a device when the host continued: launched after the events that the host waited for.
  std::uint64_t graphs_ahead = 0;
  std::uint64_t graphs = 0;        ///< graph launches
  std::uint64_t graphs_made = 0;   ///< executable graphs; an update creates none
  std::uint64_t direct_calls = 0;  ///< kernels and copies outside graphs
};

/// Returns the counts of this process; nothing if it uses a real card.
inline std::optional<counts_so_far> counts_now() {
  const auto count_of = [](const char* symbol) -> std::optional<std::uint64_t> {
    const auto found = kernels::find_in_module("libtroupe_cuda.so", symbol);
    if (found.address == nullptr) return std::nullopt;
    return reinterpret_cast<std::uint64_t (*)()>(found.address)();
  };
  const auto launches = count_of("troupe_emulated_launches");
  const auto waits = count_of("troupe_emulated_waits");
  const auto uploads = count_of("troupe_emulated_uploads");
  const auto graphs_ahead = count_of("troupe_emulated_graphs_ahead");
  const auto graphs = count_of("troupe_emulated_graphs");
  const auto graphs_made = count_of("troupe_emulated_graphs_made");
  const auto direct_calls = count_of("troupe_emulated_direct_calls");
  if (!launches || !waits || !uploads || !graphs_ahead || !graphs || !graphs_made || !direct_calls) return std::nullopt;
  return counts_so_far{*launches, *waits, *uploads, *graphs_ahead, *graphs, *graphs_made, *direct_calls};
}

}  // namespace troupe::emulated_cuda
