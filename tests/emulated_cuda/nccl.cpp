// NCCL: non-blocking communicators between threads and processes of one host. A collective is enqueued on its stream
// only at the second call of ncclCommGetAsyncError: this exposes a caller that does not poll until the collective is
// enqueued.

#include <nccl.h>

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/meeting.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#include "tests/emulated_cuda/settings.hpp"

using namespace troupe::emulated_cuda;

struct ncclComm {
  enum class phase { meeting, idle, launching, finalizing, failed };

  phase now = phase::meeting;
  int device = 0;
  bool asked = false;      ///< whether the launch has been asked about
  std::uint64_t sums = 0;  ///< sums launched so far
  std::shared_ptr<troupe::emulated_cuda::meeting> with;
  std::shared_ptr<std::atomic<bool>> aborted = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<int>> under_way = std::make_shared<std::atomic<int>>(0);
  std::vector<std::pair<cudaStream_t, troupe::emulated_cuda::work>> to_launch;
};

namespace {

thread_local int group_depth = 0;
thread_local std::vector<std::pair<ncclComm*, std::pair<cudaStream_t, troupe::emulated_cuda::work>>> group;
thread_local bool group_connects = false;
thread_local std::string last_bytes;

ncclResult_t refuse(ncclResult_t code, std::string text) {
  last_bytes = std::move(text);
  return code;
}

/// Two hosts may have cards of the same identity; NCCL distinguishes hosts by this variable if it is set.
std::string card_of(int device) {
  const char* host = std::getenv("NCCL_HOSTID");
  return troupe::emulated_cuda::device_identity(device) + (host != nullptr ? host : "");
}

ncclResult_t end_group() {
  const bool any = group_connects || !group.empty();
  for (auto& [comm, launch] : group) {
    comm->now = ncclComm::phase::launching;
    comm->asked = false;
    comm->to_launch.push_back(std::move(launch));
  }
  group.clear();
  group_connects = false;
  return any ? ncclInProgress : ncclSuccess;
}

void launch(ncclComm& comm) {
  for (auto& [stream, task] : comm.to_launch) {
    ++*comm.under_way;
    const auto code = troupe::emulated_cuda::enqueue_mark(stream, node_kind::other,
                                                          [task = std::move(task), under_way = comm.under_way] {
                                                            task();
                                                            --*under_way;
                                                          });
    if (code != cudaSuccess) comm.now = ncclComm::phase::failed;
  }
  comm.to_launch.clear();
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  TROUPE_NCCL_CALL(current_device());
  static std::atomic<unsigned> count = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/emulated-nccl-%d-%u-%08x", getpid(), ++count,
                std::random_device{}());
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd: not in a group call.");
  return --group_depth == 0 ? end_group() : ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  TROUPE_NCCL_CALL(current_device());
  if (rank < 0 || rank >= ranks) return refuse(ncclInvalidArgument, "Invalid rank requested");
  if (config == nullptr || config->blocking != 0) return refuse(ncclInvalidUsage, "only non-blocking is emulated");
  const std::string name(id.internal, strnlen(id.internal, sizeof id.internal));
  auto made = std::make_unique<ncclComm>();
  made->device = troupe::emulated_cuda::current_device();
  try {
    made->with = std::make_shared<troupe::emulated_cuda::meeting>(name, rank, ranks, card_of(made->device));
  } catch (const std::system_error& error) {
    return refuse(ncclSystemError, error.what());
  }
  *comm = made.release();
  group_connects = true;
  return group_depth == 0 ? end_group() : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  TROUPE_NCCL_CALL(comm->device);
  using phase = ncclComm::phase;
  if (comm->now == phase::meeting && comm->with->all_are_here()) {
    last_bytes = comm->with->find_duplicate();
    comm->now = last_bytes.empty() ? phase::idle : phase::failed;
  } else if (comm->now == phase::launching && std::exchange(comm->asked, true)) {
    comm->now = phase::idle;
    launch(*comm);
  } else if (comm->now == phase::finalizing && *comm->under_way == 0) {
    comm->now = phase::idle;
  }
  *state = comm->now == phase::idle ? ncclSuccess : comm->now == phase::failed ? ncclInvalidUsage : ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  TROUPE_NCCL_CALL(comm->device);
  if (comm->now != ncclComm::phase::idle) return refuse(ncclInvalidArgument, "the communicator is not ready");
  if (type != ncclFloat32 || operation != ncclSum || from != to) {
    return refuse(ncclInvalidArgument, "only sums of floats in place are emulated");
  }
  if (stream == nullptr || stream->device() != comm->device) {
    return refuse(ncclInvalidUsage, "the stream is not of the communicator's device");
  }
  if (troupe::emulated_cuda::find_place(to, count * sizeof(float)) != troupe::emulated_cuda::place::device) {
    return refuse(ncclInvalidArgument, "the buffer is not in a device's memory");
  }
  const std::uint64_t first = comm->with->next_sum(count);
  const bool hangs = ++comm->sums == troupe::emulated_cuda::configured().hanging_sum;
  troupe::emulated_cuda::work task = [with = comm->with, aborted = comm->aborted, first, device = comm->device, hangs,
                                      buffer = static_cast<float*>(to), count] {
    const auto is_over = [&] { return *aborted || error_of(device) != cudaSuccess; };
    if (hangs)
      while (!is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!is_over()) with->sum(first, buffer, count, is_over);
  };
  group.emplace_back(comm, std::pair(stream, std::move(task)));
  return group_depth == 0 ? end_group() : ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  TROUPE_NCCL_CALL(comm->device);
  if (comm->now != ncclComm::phase::idle) return refuse(ncclInvalidUsage, "the communicator is not ready");
  comm->now = ncclComm::phase::finalizing;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  TROUPE_NCCL_CALL(comm->device);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  *comm->aborted = true;
  const int device = comm->device;
  delete comm;
  TROUPE_NCCL_CALL(device);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError:
      return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInvalidArgument:
      return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage:
      return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "an error that is not emulated";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_bytes.c_str(); }
