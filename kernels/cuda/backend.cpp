// What the module `troupe_cuda` offers to the program.

#include "kernels/backend.hpp"

#include <map>
#include <memory>
#include <mutex>

#include "kernels/cuda/communicator.hpp"
#include "kernels/cuda/cuda_device.hpp"

namespace troupe::kernels::cuda {
namespace {

class cuda_backend final : public backend {
 public:
  device& open(int number) override {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<device>& opened = devices_[number];
    if (!opened) opened = open_cuda_device(number);
    return *opened;
  }

  communicator_id make_communicator_id() override { return cuda::make_communicator_id(); }

  std::unique_ptr<communicator> connect(const communicator_id& id, std::span<device* const> mine, int first_rank,
                                        int ranks) override {
    return cuda::connect(id, mine, first_rank, ranks);
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
