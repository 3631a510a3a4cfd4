// Captures and graphs of the emulated CUDA runtime.

#include <algorithm>
#include <utility>

#include "tests/emulated_cuda/capture.hpp"
#include "tests/emulated_cuda/faults.hpp"

using namespace troupe::emulated_cuda;

struct CUgraph_st {
  std::vector<troupe::emulated_cuda::graph_node> nodes;
};

struct CUgraphExec_st {
  std::vector<troupe::emulated_cuda::graph_node> nodes;
};

namespace troupe::emulated_cuda {
namespace {

/// Returns whether the origin runs after all captured work of the capture's streams.
bool are_joined(const capture& all) {
  std::vector<bool> is_before(all.nodes.size(), false);
  for (const std::size_t node : all.origin->tail) is_before[node] = true;
  for (std::size_t node = all.nodes.size(); node-- > 0;)
    if (is_before[node])
      for (const std::size_t before : all.nodes[node].after) is_before[before] = true;
  return std::all_of(all.streams.begin(), all.streams.end(), [&](cudaStream_t one) {
    return std::all_of(one->tail.begin(), one->tail.end(), [&](std::size_t node) { return is_before[node]; });
  });
}

/// Returns the nodes in an order that the edges allow, and as different from the order of calls as possible: a missing
/// edge shows.
std::vector<std::size_t> order_of(const std::vector<graph_node>& nodes) {
  std::vector<std::size_t> missing(nodes.size());
  std::vector<std::vector<std::size_t>> then(nodes.size());
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    missing[i] = nodes[i].after.size();
    for (const std::size_t before : nodes[i].after) then[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  std::vector<std::size_t> order;
  while (!ready.empty()) {
    const auto last = std::max_element(ready.begin(), ready.end());
    order.push_back(*last);
    ready.erase(last);
    for (const std::size_t next : then[order.back()])
      if (--missing[next] == 0) ready.push_back(next);
  }
  return order;
}

}  // namespace

cudaError_t invalidate(CUstream_st& on, cudaError_t code) {
  if (on.into) on.into->is_valid = false;
  return code;
}

cudaError_t add_node(CUstream_st& on, node_kind kind, work task) {
  capture& all = *on.into;
  if (!all.is_valid) return cudaErrorStreamCaptureInvalidated;
  all.nodes.push_back({kind, std::move(task), on.tail});
  on.tail = {all.nodes.size() - 1};
  return cudaSuccess;
}

void join_tails(std::vector<std::size_t>& tail, const std::vector<std::size_t>& more) {
  for (const std::size_t node : more)
    if (std::find(tail.begin(), tail.end(), node) == tail.end()) tail.push_back(node);
}

}  // namespace troupe::emulated_cuda

// -- captures ---------------------------------------------------------------------------------------------------------

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (stream == nullptr) return troupe::emulated_cuda::note(cudaErrorInvalidResourceHandle);
  if (stream->into) return troupe::emulated_cuda::note(cudaErrorIllegalState);
  stream->into = std::make_shared<troupe::emulated_cuda::capture>();
  stream->into->origin = stream;
  stream->into->mode = mode;
  stream->into->thread = std::this_thread::get_id();
  stream->into->streams = {stream};
  if (mode != cudaStreamCaptureModeRelaxed) ++troupe::emulated_cuda::captures();
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  TROUPE_CUDA_CALL(device_of(stream));
  *graph = nullptr;
  if (stream == nullptr || !stream->into) return troupe::emulated_cuda::note(cudaErrorIllegalState);
  const auto all = stream->into;
  if (all->origin != stream) return troupe::emulated_cuda::note(cudaErrorStreamCaptureUnmatched);
  if (all->mode != cudaStreamCaptureModeRelaxed) {
    if (all->thread != std::this_thread::get_id())
      return troupe::emulated_cuda::note(cudaErrorStreamCaptureWrongThread);
    --troupe::emulated_cuda::captures();
  }
  const bool is_whole = are_joined(*all);
  all->is_over = true;
  for (const cudaStream_t one : all->streams) {
    one->into = nullptr;
    one->tail.clear();
  }
  if (!all->is_valid) return troupe::emulated_cuda::note(cudaErrorStreamCaptureInvalidated);
  if (!is_whole) return troupe::emulated_cuda::note(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st{std::move(all->nodes)};
  return cudaSuccess;
}

// -- graphs -----------------------------------------------------------------------------------------------------------

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  if (nodes != nullptr)
    return troupe::emulated_cuda::note(cudaErrorNotSupported);  // the backend asks only for their number
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  ++counted().graphs_made;
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}

/// Only arguments may differ: the calls and their dependencies must be the same.
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* outcome) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  const bool is_same = std::equal(
      executable->nodes.begin(), executable->nodes.end(), graph->nodes.begin(), graph->nodes.end(),
      [](const auto& old, const auto& wanted) { return old.kind == wanted.kind && old.after == wanted.after; });
  outcome->result = is_same ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
  if (!is_same) return troupe::emulated_cuda::note(cudaErrorGraphExecUpdateFailure);
  executable->nodes = graph->nodes;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (stream->into) return troupe::emulated_cuda::note(invalidate(*stream, cudaErrorStreamCaptureUnsupported));
  if (const cudaError_t code = stream->failure(); code != cudaSuccess) return troupe::emulated_cuda::note(code);
  ++counted().graphs;
  for (const std::size_t node : order_of(executable->nodes)) stream->push(executable->nodes[node].task);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  delete executable;
  return cudaSuccess;
}
