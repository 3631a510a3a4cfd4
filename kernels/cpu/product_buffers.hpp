// The buffers of OpenBLAS. Each running product has one, of 128 MiB of address space; without room OpenBLAS would
// request one from the system forever. So buffers are made here, after a check for room, and no more products run than
// there are buffers: further ones wait.

#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <stdexcept>

namespace troupe::kernels {

/// There is no room for any buffer.
struct no_product_memory : std::runtime_error {
  no_product_memory();
};

/// Thread: any.
class product_buffers {
 public:
  static constexpr std::size_t bytes = std::size_t{128} << 20;

  /// `take` and `give` are OpenBLAS's; `has_room` returns whether the system can provide that many bytes.
  product_buffers(void* (*take)(int), void (*give)(void*), bool (*has_room)(std::size_t))
      : take_(take), give_(give), has_memory_(has_room) {}

  /// Makes buffers for up to `wanted` concurrent products, as long as `room` bytes stay free. Returns the number of
  /// buffers.
  std::size_t reserve(std::size_t wanted, std::size_t buffer);

  /// A running product.
  class use {
   public:
    /// Waits for a buffer. Throws no_product_memory.
    explicit use(product_buffers& all) : all_(all) { all_.begin(); }
    ~use() { all_.end(); }
    use(const use&) = delete;
    use& operator=(const use&) = delete;

   private:
    product_buffers& all_;
  };

 private:
  void begin();
  void end();
  void grow(std::unique_lock<std::mutex>& lock, std::size_t wanted, std::size_t buffer);

  void* (*take_)(int);
  void (*give_)(void*);
  bool (*has_memory_)(std::size_t);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
  std::size_t free_ = 0;
  bool grows_ = false;
};

}  // namespace troupe::kernels
