// Shared by the kernel tests: repeatable inputs, bounds on float32 rounding, and a loop over instruction sets.

#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/embedding_bag.hpp"

namespace troupe::kernels::test {

/// Half the distance from 1 to the next float: the relative error of one rounding.
inline constexpr double rounding = 1.0 / (1 << 24);

/// Sizes on both sides of every vector width.
inline constexpr std::size_t odd_sizes[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 257};

/// Calls `body` once for each instruction set that this machine has.
template <class Body>
void on_every_target(const Body& body) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

/// Random numbers, independent of the standard library's distributions.
class source_of_numbers {
 public:
  explicit source_of_numbers(std::uint32_t seed) : engine_(seed) {}

  /// Uniform in [-1, 1).
  float number() { return static_cast<float>(static_cast<double>(engine_()) / 2147483648.0 - 1.0); }
  /// A number in [0, end).
  std::size_t below(std::size_t end) { return engine_() % end; }

  std::vector<float> numbers(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = number();
    return values;
  }

 private:
  std::mt19937 engine_;
};

/// Owns the data of a `bags_view`.
struct bag_batch {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;
  std::vector<float> weights;

  bags_view view() const { return {indices, offsets, weights}; }
};

/// `batch` bags of up to nine indices into `rows` rows. The first, the last and one bag in the middle are empty; with
/// few rows, indices repeat within and across bags.
inline bag_batch make_bags(source_of_numbers& random, std::size_t batch, std::size_t rows, bool weighted) {
  bag_batch bags;
  for (std::size_t b = 0; b < batch; ++b) {
    bags.offsets.push_back(static_cast<std::int64_t>(bags.indices.size()));
    const bool empty = batch > 2 && (b == 0 || b == batch / 2 || b + 1 == batch);
    const std::size_t length = empty ? 0 : 1 + random.below(9);
    for (std::size_t i = 0; i < length; ++i) bags.indices.push_back(static_cast<std::int64_t>(random.below(rows)));
    if (length > 2) bags.indices.back() = bags.indices[bags.indices.size() - 2];
  }
  if (weighted) bags.weights = random.numbers(bags.indices.size());
  return bags;
}

/// Returns the single result that a processor's kernel writes to its last parameter.
template <class... Parameters, class... Arguments>
auto result_of(void (stream::*kernel)(Parameters...), const Arguments&... arguments) {
  std::remove_pointer_t<std::tuple_element_t<sizeof...(Arguments), std::tuple<Parameters...>>> result{};
  (host_stream().*kernel)(arguments..., &result);
  return result;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

}  // namespace troupe::kernels::test
