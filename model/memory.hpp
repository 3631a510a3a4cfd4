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
/// groups or `ulimit -v` leave, if that is less; minus the process's own claims.
std::uint64_t available_memory();

/// Memory that this process will use but has not written yet, so that the system still counts it as available. The
/// destructor releases the claim. Thread: one at a time for each claim.
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
  /// Reduces the claim to `bytes`: the rest has been written.
  void shrink(std::uint64_t bytes);

 private:
  friend tl::expected<memory_claim, std::uint64_t> claim_memory(std::uint64_t bytes);

  std::uint64_t bytes_ = 0;
};

/// Claims `bytes`. Returns the available bytes if these are fewer. Thread: any.
tl::expected<memory_claim, std::uint64_t> claim_memory(std::uint64_t bytes);

/// Returns the bytes of all claims of this process.
std::uint64_t claimed_memory();

/// Returns a * b, saturated at the largest number.
std::uint64_t bounded_product(std::uint64_t a, std::uint64_t b);
/// Returns a + b, saturated at the largest number.
std::uint64_t bounded_sum(std::uint64_t a, std::uint64_t b);

/// Returns the bytes of a table's rows and optimizer state, saturated at the largest number.
std::uint64_t table_bytes(std::int64_t rows, std::size_t dim, kernels::row_dtype dtype,
                          const optimizer_spec& optimizer);

/// Returns the error line: `what` would need `bytes`, only `available` are available, and the advice.
std::string memory_fault(const std::string& what, std::uint64_t bytes, std::uint64_t available = available_memory(),
                         const std::string& advice = "use less, or an optimizer with less state");

}  // namespace troupe::model
