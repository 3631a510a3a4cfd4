// The CUDA runtime's memory and copies.

#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/device.hpp"
#include "tests/emulated_cuda/capture.hpp"
#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#include "tests/emulated_cuda/settings.hpp"

namespace troupe::emulated_cuda {
namespace {

constexpr std::size_t alignment = 256;
constexpr int host = -1;

/// All allocated memory, by address.
class memory_book {
 public:
  cudaError_t allocate(int device, std::size_t bytes, void** address) {
    const std::lock_guard lock(mutex_);
    if (device != host && used_[device] + bytes > configured().memory_mib << 20) return cudaErrorMemoryAllocation;
    if (posix_memalign(address, alignment, bytes) != 0) return cudaErrorMemoryAllocation;
    // NaN, and an invalid index. Not in cuBLASLt's workspace: the emulation touches none of its pages.
    if (bytes != kernels::matmul_workspace_bytes) std::memset(*address, 0xff, bytes);
    used_[device] += bytes;
    blocks_[begin_of(*address)] = {device, bytes};
    return cudaSuccess;
  }

  cudaError_t release(void* address, bool of_host) {
    if (address == nullptr) return cudaSuccess;
    {
      const std::lock_guard lock(mutex_);
      const auto found = blocks_.find(begin_of(address));
      if (found == blocks_.end() || (found->second.device == host) != of_host) return cudaErrorInvalidValue;
      used_[found->second.device] -= found->second.bytes;
      blocks_.erase(found);
    }
    std::free(address);
    return cudaSuccess;
  }

  std::size_t used(int device) {
    const std::lock_guard lock(mutex_);
    return used_[device];
  }

  place find(const void* address, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto found = blocks_.upper_bound(begin_of(address));
    if (found == blocks_.begin()) return place::pageable;
    --found;
    const std::size_t offset = begin_of(address) - found->first;
    if (offset >= found->second.bytes) return place::pageable;
    if (bytes > found->second.bytes - offset) return place::astray;
    return found->second.device == host ? place::pinned : place::device;
  }

 private:
  struct block {
    int device;
    std::size_t bytes;
  };

  static std::uintptr_t begin_of(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

  std::mutex mutex_;
  std::map<std::uintptr_t, block> blocks_;
  std::map<int, std::size_t> used_;
};

/// Never destroyed: streams may outlive everything.
memory_book& book() {
  static memory_book& all = *new memory_book;
  return all;
}

bool fits(place from, place to, cudaMemcpyKind kind) {
  const bool from_device = from == place::device;
  const bool to_device = to == place::device;
  if (from == place::astray || to == place::astray) return false;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return !from_device && to_device;
    case cudaMemcpyDeviceToHost:
      return from_device && !to_device;
    case cudaMemcpyDeviceToDevice:
      return from_device && to_device;
    case cudaMemcpyDefault:
      return from_device || to_device;
    default:
      return false;
  }
}

/// Without pinned memory the host waits, as with CUDA, and the copy cannot be part of a graph.
cudaError_t copy(const void* from, void* to, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const place source = find_place(from, bytes);
  const place target = find_place(to, bytes);
  if (!fits(source, target, kind)) return cudaErrorInvalidValue;
  const bool is_pageable = source == place::pageable || target == place::pageable;
  if (is_pageable && stream->into) return invalidate(*stream, cudaErrorStreamCaptureUnsupported);
  if (source != place::device) ++counted().uploads;
  const node_kind kind_of_node = source != place::device   ? node_kind::upload
                                 : target != place::device ? node_kind::download
                                                           : node_kind::copy;
  const cudaError_t code = enqueue_anywhere(stream, kind_of_node, [=] { std::memcpy(to, from, bytes); });
  if (is_pageable) stream->wait_until_idle();
  return code;
}

}  // namespace

place find_place(const void* address, std::size_t bytes) { return book().find(address, bytes); }

}  // namespace troupe::emulated_cuda

using namespace troupe::emulated_cuda;

// -- memory -----------------------------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  *address = nullptr;
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess || bytes == 0)
    return troupe::emulated_cuda::note(code);
  if (troupe::emulated_cuda::captures() > 0) return troupe::emulated_cuda::note(cudaErrorStreamCaptureUnsupported);
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::book().allocate(troupe::emulated_cuda::current_device(), bytes, address));
}

cudaError_t cudaFree(void* address) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  return troupe::emulated_cuda::note(troupe::emulated_cuda::book().release(address, false));
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  *address = nullptr;
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess || bytes == 0)
    return troupe::emulated_cuda::note(code);
  if (troupe::emulated_cuda::captures() > 0) return troupe::emulated_cuda::note(cudaErrorStreamCaptureUnsupported);
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::book().allocate(troupe::emulated_cuda::host, bytes, address));
}

cudaError_t cudaFreeHost(void* address) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  return troupe::emulated_cuda::note(troupe::emulated_cuda::book().release(address, true));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  if (const cudaError_t code = troupe::emulated_cuda::usable(); code != cudaSuccess)
    return troupe::emulated_cuda::note(code);
  *total = troupe::emulated_cuda::configured().memory_mib << 20;
  *free = *total - troupe::emulated_cuda::book().used(troupe::emulated_cuda::current_device());
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* address) {
  TROUPE_CUDA_CALL(troupe::emulated_cuda::current_device());
  const place at = troupe::emulated_cuda::find_place(address, 1);
  *found = {};
  found->type = at == place::device   ? cudaMemoryTypeDevice
                : at == place::pinned ? cudaMemoryTypeHost
                                      : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

// -- copies -----------------------------------------------------------------------------------------------------------

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (bytes == 0) return cudaSuccess;
  return troupe::emulated_cuda::note(troupe::emulated_cuda::copy(from, to, bytes, kind, stream));
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  TROUPE_CUDA_CALL(device_of(stream));
  if (bytes == 0) return cudaSuccess;
  if (troupe::emulated_cuda::find_place(to, bytes) != troupe::emulated_cuda::place::device)
    return troupe::emulated_cuda::note(cudaErrorInvalidValue);
  return troupe::emulated_cuda::note(
      troupe::emulated_cuda::enqueue_anywhere(stream, node_kind::set, [=] { std::memset(to, value, bytes); }));
}
