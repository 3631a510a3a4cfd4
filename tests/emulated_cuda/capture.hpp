// Stream captures as graphs. A capture may span several streams: a stream that waits for an event of a capture joins
// it.

#pragma once

#include <cstddef>
#include <thread>
#include <vector>

#include "tests/emulated_cuda/runtime.hpp"

namespace troupe::emulated_cuda {

/// A captured call. It runs after other nodes, which were captured earlier.
struct graph_node {
  node_kind kind = node_kind::other;
  work task;
  std::vector<std::size_t> after;
};

/// A capture in progress. It may also be over, as events still refer to it.
struct capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;             ///< the thread that began it
  std::vector<cudaStream_t> streams;  ///< including the origin
  std::vector<graph_node> nodes;
  bool is_over = false;
  bool is_valid = true;  ///< no captured call is forbidden in graphs
};

/// Invalidates the capture that `on` is part of; the end of the capture reports it. Returns `code`.
cudaError_t invalidate(CUstream_st& on, cudaError_t code);

/// Adds a call on `on` to its capture.
cudaError_t add_node(CUstream_st& on, node_kind kind, work task);

/// Merges the nodes of `more` into a stream's tail.
void join_tails(std::vector<std::size_t>& tail, const std::vector<std::size_t>& more);

}  // namespace troupe::emulated_cuda
