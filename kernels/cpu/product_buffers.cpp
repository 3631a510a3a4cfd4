#include "kernels/cpu/product_buffers.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace troupe::kernels {

namespace {

/// OpenBLAS, as distributions build it, supports some hundreds.
constexpr std::size_t buffers_max = 128;

}  // namespace

no_product_memory::no_product_memory()
    : std::runtime_error("matrix products: OpenBLAS takes " + std::to_string(product_buffers::bytes >> 20) +
                         " MiB of address space for each thread that multiplies, and the limits of this process "
                         "(ulimit -v, ulimit -d, vm.overcommit_memory) leave no room for one; raise them") {}

std::size_t product_buffers::reserve(std::size_t wanted, std::size_t buffer) {
  std::unique_lock lock(mutex_);
  if (wanted > count_) grow(lock, wanted, buffer);
  return count_;
}

void product_buffers::begin() {
  std::unique_lock lock(mutex_);
  // As many bytes again stay free for allocations of other threads.
  if (free_ == 0 && count_ < buffers_max && has_memory_(2 * bytes)) grow(lock, count_ + 1, bytes);
  if (count_ == 0) throw no_product_memory();
  changed_.wait(lock, [this] { return free_ > 0 && !grows_; });
  --free_;
}

void product_buffers::end() {
  const std::lock_guard lock(mutex_);
  ++free_;
  changed_.notify_all();
}

/// OpenBLAS hands out any unused buffer, and makes a new one only if all are in use. So this waits until no product
/// runs: then it knows which buffers are new.
void product_buffers::grow(std::unique_lock<std::mutex>& lock, std::size_t wanted, std::size_t buffer) {
  changed_.wait(lock, [this] { return !grows_; });
  grows_ = true;
  changed_.wait(lock, [this] { return free_ == count_; });
  std::vector<void*> taken;
  while (taken.size() < std::min(wanted, buffers_max) && (taken.size() < count_ || has_memory_(bytes + buffer)))
    taken.push_back(take_(0));
  for (void* const one : taken) give_(one);
  count_ = std::max(count_, taken.size());
  free_ = count_;
  grows_ = false;
  changed_.notify_all();
}

}  // namespace troupe::kernels
