// Captures of streams as graphs. A capture may span several streams: one that waits for an event of a capture joins it.

#pragma once

#include <cstddef>
#include <thread>
#include <vector>

#include "tests/emulated_cuda/runtime.hpp"

namespace troupe::emulated_cuda {

/// A captured call. It comes after other nodes, which have been captured before.
struct graph_node {
  node_kind kind = node_kind::other;
  work task;
  std::vector<std::size_t> after;
};

/// A capture under way; as events still refer to it, it may also be over.
struct capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;             ///< that has begun it
  std::vector<cudaStream_t> streams;  ///< with the origin
  std::vector<graph_node> nodes;
  bool is_over = false;
  bool is_valid = true;  ///< no call has been made that cannot be part of a graph
};

/// Makes the capture of `on` of no use; its end tells. Returns `code`.
cudaError_t invalidate(CUstream_st& on, cudaError_t code);

/// Adds a call of `on` to its capture.
cudaError_t add_node(CUstream_st& on, node_kind kind, work task);

/// Adds to a stream's tail what another has.
void join_tails(std::vector<std::size_t>& tail, const std::vector<std::size_t>& more);

}  // namespace troupe::emulated_cuda
