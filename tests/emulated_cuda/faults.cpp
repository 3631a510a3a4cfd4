#include "tests/emulated_cuda/faults.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <utility>

#include "tests/emulated_cuda/settings.hpp"

namespace troupe::emulated_cuda {
namespace {

constexpr std::size_t devices_max = 64;

/// Counts the calls, and decides which fail.
class call_book {
 public:
  call_book() : seen_(configured().faults.size(), 0) {}

  void write() {
    const std::lock_guard lock(mutex_);
    std::ofstream out(configured().counts_file + "." + std::to_string(getpid()));
    for (const auto& [function, count] : counts_) out << function << ' ' << count << '\n';
  }

  /// Returns the fault of this call; null without one.
  const planned_fault* count(const std::string& function, int device) {
    if (seen_.empty() && configured().counts_file.empty()) return nullptr;
    const std::lock_guard lock(mutex_);
    ++counts_[function];
    const planned_fault* found = nullptr;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const planned_fault& one = configured().faults[i];
      if (one.function != any_function && one.function != function) continue;
      if (one.device != any_device && one.device != device) continue;
      ++seen_[i];
      // An allocation that fails once keeps failing.
      if (seen_[i] == one.at || (seen_[i] > one.at && one.code == cudaErrorMemoryAllocation)) found = &one;
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> seen_;  ///< for each planned fault, the number of matching calls
  std::map<std::string, std::uint64_t> counts_;
};

/// Never destroyed: threads may call until the very end, when the counts are written if a test wants them.
call_book& book_of_calls() {
  static call_book& all = *new call_book;
  static const struct at_end {
    ~at_end() {
      if (!configured().counts_file.empty()) all.write();
    }
  } writes;
  return all;
}

std::array<std::atomic<cudaError_t>, devices_max>& broken_devices() {
  static std::array<std::atomic<cudaError_t>, devices_max> all{};
  return all;
}

void break_down(int device, cudaError_t code) { broken_devices().at(static_cast<std::size_t>(device)) = code; }

}  // namespace

cudaError_t error_of(int device) { return broken_devices().at(static_cast<std::size_t>(device)); }

cudaError_t begin_call(const char* function, int device) {
  const planned_fault* const fault = book_of_calls().count(function, device);
  if (const cudaError_t code = error_of(device); code != cudaSuccess) return code;
  if (fault == nullptr) return cudaSuccess;
  if (fault->lasts) break_down(device, fault->code);
  return fault->code;
}

cudaError_t enqueue_kernel(cudaStream_t stream, work task) {
  const int device = current_device();
  const planned_fault* const fault = book_of_calls().count("kernel", device);
  if (const cudaError_t code = error_of(device); code != cudaSuccess) return code;
  if (fault != nullptr && !fault->lasts) return fault->code;
  if (fault != nullptr) task = [device, code = fault->code] { break_down(device, code); };
  return enqueue(stream, std::move(task));
}

}  // namespace troupe::emulated_cuda
