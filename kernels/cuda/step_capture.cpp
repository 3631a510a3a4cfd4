#include "kernels/cuda/step_capture.hpp"

#include <cstdlib>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/cuda_device.hpp"

namespace troupe::kernels::cuda {

namespace {

/// A captured graph, destroyed at the end of its scope.
struct owned_graph {
  explicit owned_graph(cudaGraph_t of) : handle(of) {}
  ~owned_graph() { cudaGraphDestroy(handle); }
  owned_graph(const owned_graph&) = delete;
  owned_graph& operator=(const owned_graph&) = delete;

  /// A step may end before its first call.
  bool is_empty() const {
    std::size_t count = 0;
    check(cudaGraphGetNodes(handle, nullptr, &count), "cudaGraphGetNodes");
    return count == 0;
  }

  const cudaGraph_t handle;
};

}  // namespace

captured_step::captured_step(int device) : device_(device) {
  check(cudaEventCreateWithFlags(&end_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
}

captured_step::~captured_step() {
  make_current_if_possible(device_);
  cudaEventDestroy(end_);
}

void step_capture::enter(state next) {
  if (!may_follow(state_, next)) std::abort();
  state_.store(next, std::memory_order_relaxed);
}

void step_capture::turn_on() {
  const turn mine(turns_);
  if (state_ != state::off) return;
  make_current(device_);
  if (joint_ == nullptr) check(cudaEventCreateWithFlags(&joint_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  int usual = 0;
  int high = 0;
  check(cudaDeviceGetStreamPriorityRange(&usual, &high), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&origin_, cudaStreamNonBlocking, usual), "cudaStreamCreateWithPriority");
  enter(state::direct);
}

void step_capture::begin() {
  const turn mine = take_turn();
  if (state_ == state::off) std::abort();
  make_current(device_);
  try {
    if (state_ == state::capturing)
      launch();
    else
      follow_streams();
    capture();
  } catch (...) {
    recover();
    throw;
  }
}

void step_capture::end() {
  const turn mine = take_turn();
  if (state_ != state::capturing) return;
  make_current(device_);
  try {
    launch();
  } catch (...) {
    recover();
    throw;
  }
  hold_streams();
}

void step_capture::add(cudaStream_t stream) {
  const turn mine(turns_);
  end();
  streams_.push_back(stream);
}

void step_capture::remove(cudaStream_t stream) noexcept {
  const turn mine(turns_);
  try {
    end();
  } catch (const device_error&) {
    // The device has failed; its next call reports it.
  }
  std::erase(streams_, stream);
}

/// Relaxed, since the step's calls may allocate memory, and other threads query events of earlier steps meanwhile.
void step_capture::capture() {
  auto next = std::make_shared<captured_step>(device_);
  check(cudaStreamBeginCapture(origin_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  step_ = std::move(next);
  enter(state::capturing);
  check(cudaEventRecord(joint_, origin_), "cudaEventRecord");
  for (const cudaStream_t stream : streams_) check(cudaStreamWaitEvent(stream, joint_, 0), "cudaStreamWaitEvent");
}

void step_capture::launch() {
  const auto done = std::exchange(step_, nullptr);
  try {
    const owned_graph graph(end_capture());
    if (!graph.is_empty()) {
      executable& next = executables_[launches_++ % executables_.size()];
      make_executable(next, graph.handle);
      check(cudaGraphLaunch(next.graph, origin_), "cudaGraphLaunch");
      next.used = done;
    }
    check(cudaEventRecord(done->end(), origin_), "cudaEventRecord");
  } catch (...) {
    done->close();
    throw;
  }
  last_ = done;
  done->close();
}

/// Whatever fails, no stream is capturing afterwards.
cudaGraph_t step_capture::end_capture() {
  cudaError_t joined = cudaSuccess;
  for (const cudaStream_t stream : streams_) {
    if (joined == cudaSuccess) joined = cudaEventRecord(joint_, stream);
    if (joined == cudaSuccess) joined = cudaStreamWaitEvent(origin_, joint_, 0);
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(origin_, &graph);
  enter(state::direct);
  if (joined == cudaSuccess && ended == cudaSuccess) return graph;
  if (graph != nullptr) cudaGraphDestroy(graph);
  check(joined, "cudaStreamWaitEvent");
  check(ended, "cudaStreamEndCapture");
  return nullptr;
}

/// Waits on the host if the graph's previous launch is not over.
void step_capture::make_executable(executable& to, cudaGraph_t graph) const {
  if (to.used && cudaEventQuery(to.used->end()) != cudaSuccess) {
    cudaGetLastError();  // not an error
    check(cudaEventSynchronize(to.used->end()), "cudaEventSynchronize");
  }
  to.used = nullptr;
  if (to.graph != nullptr) {
    cudaGraphExecUpdateResultInfo outcome{};
    if (cudaGraphExecUpdate(to.graph, graph, &outcome) == cudaSuccess) return;
    cudaGetLastError();  // the step's calls differ from those of the previous one
    cudaGraphExecDestroy(std::exchange(to.graph, nullptr));
  }
  check(cudaGraphInstantiate(&to.graph, graph, 0), "cudaGraphInstantiate");
}

/// Makes the next graph wait for all calls of the streams so far.
void step_capture::follow_streams() {
  for (const cudaStream_t stream : streams_) {
    check(cudaEventRecord(joint_, stream), "cudaEventRecord");
    check(cudaStreamWaitEvent(origin_, joint_, 0), "cudaStreamWaitEvent");
  }
}

/// Makes all streams wait for the graphs so far.
void step_capture::hold_streams() {
  if (!last_) return;
  for (const cudaStream_t stream : streams_) check(cudaStreamWaitEvent(stream, last_->end(), 0), "cudaStreamWaitEvent");
}

/// Cleans up after a failure, and ignores further failures, which follow from it.
void step_capture::recover() noexcept {
  drop();
  try {
    hold_streams();
  } catch (const device_error&) {
    // The device's next call reports it.
  }
}

/// Drops the captured calls.
void step_capture::drop() noexcept {
  if (state_ != state::capturing) return;
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(origin_, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // the first failure is more informative
  enter(state::direct);
  std::exchange(step_, nullptr)->close();
}

}  // namespace troupe::kernels::cuda
