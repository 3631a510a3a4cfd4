// The backend of the module `troupe_cuda`: CUDA devices, and communicators that never block. NCCL's own threads do the
// slow work; `poll` checks the outcome.

#include "kernels/backend.hpp"

#include <nccl.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/cuda_stream.hpp"

namespace troupe::kernels::cuda {
namespace {

/// How long the destructor waits for a healthy communicator before it aborts it.
constexpr auto timeout = std::chrono::seconds(5);

/// Throws unless the call has succeeded or is in progress; `poll` returns the outcome later. Adds NCCL's text for the
/// last error of the process.
void check_begun(ncclResult_t code, const char* call, int device = current_device()) {
  try {
    check(code, call, device);
  } catch (const device_error& error) {
    const std::string text = ncclGetLastError(nullptr);
    if (text.empty()) throw;
    throw device_error(std::string(error.what()) + " (NCCL: " + text + ")", error.why());
  }
}

/// Runs `calls` in an NCCL group. Also closes the group after an exception: NCCL counts open groups by thread.
template <class Calls>
void in_group(const Calls& calls) {
  check_begun(ncclGroupStart(), "ncclGroupStart");
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();
    throw;
  }
  check_begun(ncclGroupEnd(), "ncclGroupEnd");
}

class nccl_communicator final : public communicator {
 public:
  nccl_communicator(const communicator_id& id, std::span<device* const> mine, int first_rank, int ranks)
      : devices_(mine.begin(), mine.end()), parts_(mine.size(), nullptr) {
    ncclUniqueId unique;
    static_assert(sizeof unique == sizeof id);
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      in_group([&] {
        for (std::size_t i = 0; i < parts_.size(); ++i) {
          make_current(devices_[i]->number());
          const int rank = first_rank + static_cast<int>(i);
          check_begun(ncclCommInitRankConfig(&parts_[i], ranks, unique, rank, &config), "ncclCommInitRankConfig");
        }
      });
    } catch (...) {
      abort();
      throw;
    }
  }

  ~nccl_communicator() override {
    if (poll() == state::ready && finish())
      for (const ncclComm_t part : parts_) ncclCommDestroy(part);
    else
      abort();
  }

  state poll() override {
    bool busy = false;
    try {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        ncclResult_t now = ncclSuccess;
        check_begun(ncclCommGetAsyncError(parts_[i], &now), "ncclCommGetAsyncError", devices_[i]->number());
        check_begun(now, "NCCL", devices_[i]->number());
        busy |= now == ncclInProgress;
      }
    } catch (const device_error& error) {
      fail(error.what(), error.why());
    }
    return !error_.empty() ? state::failed : busy ? state::busy : state::ready;
  }

  std::string error() const override { return error_; }
  device_error::reason why() const override { return why_; }

  void all_reduce(std::span<float* const> buffers, std::size_t count, std::span<stream* const> streams) override {
    for (device* const one : devices_) one->graphs()->end();  // NCCL uses the stream when it is polled
    in_group([&] {
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        make_current(devices_[i]->number());
        const cudaStream_t handle = static_cast<cuda_stream&>(*streams[i]).handle();
        check_begun(ncclAllReduce(buffers[i], buffers[i], count, ncclFloat32, ncclSum, parts_[i], handle),
                    "ncclAllReduce");
      }
    });
  }

  void abort() override {
    // Aborts all parts in one group: a part alone may wait for a kernel of another.
    ncclGroupStart();
    for (ncclComm_t& part : parts_)
      if (part != nullptr) ncclCommAbort(part);
    ncclGroupEnd();
    parts_.clear();
    fail("the communicator was aborted", device_error::reason::given_up);
  }

 private:
  /// Keeps the first error.
  void fail(const std::string& error, device_error::reason why) {
    if (!error_.empty()) return;
    error_ = error;
    why_ = why;
  }

  /// Returns whether all operations have finished without an error.
  bool finish() {
    for (const ncclComm_t part : parts_) {
      const ncclResult_t code = ncclCommFinalize(part);
      if (code != ncclSuccess && code != ncclInProgress) return false;
    }
    const auto end = std::chrono::steady_clock::now() + timeout;
    while (poll() == state::busy) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return error_.empty();
  }

  const std::vector<device*> devices_;
  std::vector<ncclComm_t> parts_;
  std::string error_;
  device_error::reason why_ = device_error::reason::failed;
};

class cuda_backend final : public backend {
 public:
  device& open(int number) override {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<device>& opened = devices_[number];
    if (!opened) opened = open_cuda_device(number);
    return *opened;
  }

  communicator_id make_communicator_id() override {
    ncclUniqueId unique;
    check_begun(ncclGetUniqueId(&unique), "ncclGetUniqueId");
    communicator_id id;
    std::memcpy(id.data(), &unique, sizeof unique);
    return id;
  }

  std::unique_ptr<communicator> connect(const communicator_id& id, std::span<device* const> mine, int first_rank,
                                        int ranks) override {
    return std::make_unique<nccl_communicator>(id, mine, first_rank, ranks);
  }

 private:
  std::mutex mutex_;
  std::map<int, std::unique_ptr<device>> devices_;
};

}  // namespace
}  // namespace troupe::kernels::cuda

/// See `backend_symbol`. Never destroyed: devices live until the process ends.
extern "C" __attribute__((visibility("default"))) troupe::kernels::backend& troupe_backend() {
  static auto& backend = *new troupe::kernels::cuda::cuda_backend;
  return backend;
}
