// The buffers of OpenBLAS. Each product that is under way has one, of 128 MiB of address space, and OpenBLAS asks the
// system for a new one for ever if there is no room. So they are taken here, after a look whether there is room, and
// there are never more products under way than buffers: further ones wait.

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

  /// `take` and `give` are OpenBLAS's; `has_room` returns whether the system gives so many bytes.
  product_buffers(void* (*take)(int), void (*give)(void*), bool (*has_room)(std::size_t))
      : take_(take), give_(give), has_room_(has_room) {}

  /// Makes buffers for up to `wanted` products at once, as long as `room` bytes stay besides. Returns how many there
  /// are.
  std::size_t reserve(std::size_t wanted, std::size_t room);

  /// A product that is under way.
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
  void grow(std::unique_lock<std::mutex>& lock, std::size_t wanted, std::size_t room);

  void* (*take_)(int);
  void (*give_)(void*);
  bool (*has_room_)(std::size_t);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t count_ = 0;
  std::size_t free_ = 0;
  bool grows_ = false;
};

}  // namespace troupe::kernels
