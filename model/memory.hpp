// Available memory, for refusing tables that cannot fit before anything is allocated.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "kernels/embedding_bag.hpp"
#include "model/optimizer.hpp"

namespace troupe::model {

/// Returns the bytes that this process can allocate without swapping: the kernel's MemAvailable, or what its control
/// groups or `ulimit -v` leave, if that is less; without those that it has claimed.
std::uint64_t available_memory();

/// Memory that this process is going to use and has not written yet, so that the system still calls it available. Gives
/// it up when it is destroyed. Thread: one at a time; any of different claims.
class memory_claim {
 public:
  memory_claim() = default;
  memory_claim(memory_claim&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  memory_claim& operator=(memory_claim&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  memory_claim(const memory_claim&) = delete;
  memory_claim& operator=(const memory_claim&) = delete;
  ~memory_claim() { shrink(0); }

  std::uint64_t bytes() const { return bytes_; }
  /// Gives up all but so many bytes: the others have been written.
  void shrink(std::uint64_t bytes);

 private:
  friend tl::expected<memory_claim, std::uint64_t> claim_memory(std::uint64_t bytes);

  std::uint64_t bytes_ = 0;
};

/// Claims so many bytes. Returns how many are available if these are fewer. Thread: any.
tl::expected<memory_claim, std::uint64_t> claim_memory(std::uint64_t bytes);

/// Returns the bytes of all claims of this process.
std::uint64_t claimed_memory();

/// Returns a * b, saturated at the largest number.
std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b);
/// Returns a + b, likewise.
std::uint64_t bounded_sum(std::uint64_t a, std::uint64_t b);

/// Returns the bytes of a table's rows and optimizer state, saturated at the largest number.
std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, kernels::row_dtype dtype,
                          const optimizer_spec& optimizer);

/// Returns the error line: `what` would take `bytes`, only `available` are available, and the advice.
std::string memory_fault(const std::string& what, std::uint64_t bytes, std::uint64_t available = available_memory(),
                         const std::string& advice = "use less, or an optimizer with less state");

}  // namespace troupe::model
