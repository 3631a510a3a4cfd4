// A CUDA device: its memory, and the checks before its first use.

#include "kernels/cuda/cuda_device.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/cuda_stream.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Rounds up, so that similar sizes share blocks: wastes at most an eighth of a small size, 2 MiB of a large one.
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = std::clamp(std::bit_floor(bytes) / 8, std::size_t{512}, std::size_t{2} << 20);
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

std::string in_mib(std::uint64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

std::string missing_text(int number, int count) {
  std::string text = "there is no CUDA device " + std::to_string(number) + ": the machine has ";
  if (count == 0) return text + "none";
  text += std::to_string(count);
  return text + (count == 1 ? " (0)" : " (0 to " + std::to_string(count - 1) + ")");
}

/// Formats it like nvidia-smi.
std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

thread_local int current = -1;

}  // namespace

int current_device() { return current; }

void make_current(int device) {
  if (device == current) return;
  check(cudaSetDevice(device), "cudaSetDevice", device);
  current = device;
}

void make_current_if_possible(int device) noexcept {
  if (device != current && cudaSetDevice(device) == cudaSuccess) current = device;
}

// -- memory -----------------------------------------------------------------------------------------------------------

std::shared_ptr<std::byte> memory_pool::allocate(std::size_t bytes, cudaError_t& code) {
  std::size_t size = rounded(bytes);
  void* memory = take_idle(size);
  code = cudaSuccess;
  if (memory == nullptr) {
    code = allocate_(&memory, size);
    if (code == cudaErrorMemoryAllocation && free_idle()) code = allocate_(&memory, size);
    if (code != cudaSuccess) return nullptr;
  }
  return {static_cast<std::byte*>(memory), [this, size](std::byte* old) { give_back(old, size); }};
}

/// Returns an idle block of at least `size` bytes, and not much more, and sets `size` to its size; null without one.
std::byte* memory_pool::take_idle(std::size_t& size) {
  const std::lock_guard lock(mutex_);
  const auto found = idle_.lower_bound(size);
  if (found == idle_.end() || found->first > size + size / 4) return nullptr;
  size = found->first;
  std::byte* const memory = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) idle_.erase(found);
  idle_bytes_ -= size;
  return memory;
}

std::size_t memory_pool::idle_bytes() const {
  const std::lock_guard lock(mutex_);
  return idle_bytes_;
}

void memory_pool::give_back(std::byte* memory, std::size_t bytes) {
#ifdef TROUPE_SPOILS_FREED_MEMORY  // so that a stream that still uses it computes visibly wrong numbers
  std::memset(memory, 0xff, bytes);
#endif
  const std::lock_guard lock(mutex_);
  idle_[bytes].push_back(memory);
  idle_bytes_ += bytes;
}

/// Frees all idle blocks; returns false if there were none. Does not hold the lock while it frees: cudaFree waits for
/// the device, which may wait for a thread that allocates.
bool memory_pool::free_idle() {
  std::map<std::size_t, std::vector<std::byte*>> old;
  {
    const std::lock_guard lock(mutex_);
    std::swap(old, idle_);
    idle_bytes_ = 0;
  }
  if (old.empty()) return false;
  cudaGetLastError();  // clears the out-of-memory error, which has been handled
  for (const auto& [size, blocks] : old)
    for (std::byte* const block : blocks) check(free_(block), "cudaFree");
  return true;
}

// -- the device -------------------------------------------------------------------------------------------------------

cuda_device::cuda_device(int number, std::string uuid)
    : number_(number),
      uuid_(std::move(uuid)),
      graphs_(number),
      memory_([](void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); },
              [this](void* memory) {
                graphs_.end();  // cudaFree waits for the device
                return cudaFree(memory);
              }),
      staging_([](void** memory, std::size_t bytes) { return cudaMallocHost(memory, bytes); },
               [this](void* memory) {
                 graphs_.end();
                 return cudaFreeHost(memory);
               }) {}

memory_use cuda_device::memory() const {
  make_current();
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {free + memory_.idle_bytes(), total};
}

std::shared_ptr<std::byte> cuda_device::allocate(std::size_t bytes) {
  make_current();
  cudaError_t code = cudaSuccess;
  std::shared_ptr<std::byte> given = memory_.allocate(bytes, code);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // clears the error, so that the next call does not report it
    const memory_use use = memory();
    throw device_error("the memory of CUDA device " + std::to_string(number_) + " is too small: " + in_mib(bytes) +
                           " more are needed, " + in_mib(use.free) + " of " + in_mib(use.total) +
                           " are free; try smaller batches (--batch-size), more --devices, or --server-device cpu",
                       device_error::reason::memory);
  }
  check(code, "cudaMalloc");
  return given;
}

std::shared_ptr<std::byte> cuda_device::allocate_staging(std::size_t bytes) {
  make_current();
  cudaError_t code = cudaSuccess;
  std::shared_ptr<std::byte> given = staging_.allocate(bytes, code);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw device_error(
        "the host has too little memory for copies to and from CUDA device " + std::to_string(number_) + ": " +
            in_mib(bytes) +
            " more are needed that stay in place; try smaller batches (--batch-size), or see the limit of locked "
            "memory (ulimit -l)",
        device_error::reason::memory);
  }
  check(code, "cudaMallocHost");
  return given;
}

std::unique_ptr<stream> cuda_device::make_stream(matmul_precision precision, stream_priority priority) {
  make_current();
  return std::make_unique<cuda_stream>(*this, precision, priority);
}

std::unique_ptr<device> open_cuda_device(int number) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount", number);
  if (number < 0 || number >= count) throw device_error(missing_text(number, count));
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties", number);
  if (properties.major < 8)
    throw device_error("CUDA device " + std::to_string(number) + " (" + properties.name + ") has compute capability " +
                       std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                       "; 8.0 or above is needed");
  make_current(number);
  return std::make_unique<cuda_device>(number, text_of(properties.uuid));
}

}  // namespace troupe::kernels::cuda
