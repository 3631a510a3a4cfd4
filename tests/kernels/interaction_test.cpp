// Pairwise dot products against sums in double; their bits do not depend on strides or vector width.

#include "kernels/interaction.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::interaction_test {
namespace {

struct shape {
  std::size_t batch;
  std::size_t vectors;
  std::size_t dim;
};

std::vector<shape> shapes() {
  std::vector<shape> all;
  for (const std::size_t batch : {0, 1, 5}) {
    for (const std::size_t vectors : {2, 3, 9, 16, 17, 27}) {
      for (const std::size_t dim : {1, 3, 7, 16, 33, 64}) all.push_back({batch, vectors, dim});
    }
  }
  return all;
}

std::string text(const shape& s) {
  return std::to_string(s.batch) + " samples of " + std::to_string(s.vectors) + " x " + std::to_string(s.dim);
}

/// A batch's vectors side by side in one matrix, separated by NaN.
struct vectors_in_rows {
  std::size_t count;
  std::size_t dim;
  std::size_t gap;
  std::vector<float> numbers;

  vectors_in_rows(const shape& s, std::size_t between)
      : count(s.vectors), dim(s.dim), gap(between), numbers(s.batch * stride(), std::nanf("")) {}

  std::size_t stride() const { return count * (dim + gap); }
  float& at(std::size_t b, std::size_t i, std::size_t d) { return numbers[b * stride() + i * (dim + gap) + d]; }

  template <class T>
  std::vector<row_matrix<T>> matrices() {
    std::vector<row_matrix<T>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back({numbers.data() + i * (dim + gap), stride()});
    return all;
  }
};

vectors_in_rows random_vectors(const shape& s, std::size_t gap, std::uint32_t seed) {
  source_of_numbers random(seed);
  vectors_in_rows x(s, gap);
  for (std::size_t b = 0; b < s.batch; ++b) {
    for (std::size_t i = 0; i < s.vectors; ++i) {
      for (std::size_t d = 0; d < s.dim; ++d) x.at(b, i, d) = random.number();
    }
  }
  return x;
}

std::vector<float> dots_of(const shape& s, vectors_in_rows& x) {
  std::vector<float> dots(s.batch * pair_count(s.vectors), 77.0F);
  host_stream().pairwise_dots(s.batch, s.dim, x.matrices<const float>(), {dots.data(), pair_count(s.vectors)});
  return dots;
}

vectors_in_rows gradients_of(const shape& s, vectors_in_rows& x, const std::vector<float>& grad_dots, std::size_t gap) {
  vectors_in_rows grads(s, gap);
  host_stream().pairwise_dots_backward(s.batch, s.dim, x.matrices<const float>(),
                                       {grad_dots.data(), pair_count(s.vectors)}, grads.matrices<float>());
  return grads;
}

TEST(Interaction, PairsAreThoseBelowTheDiagonal) {
  EXPECT_EQ(pair_count(0), 0U);
  EXPECT_EQ(pair_count(1), 0U);
  EXPECT_EQ(pair_count(2), 1U);
  EXPECT_EQ(pair_count(27), 351U);
}

TEST(Interaction, DotsComeRowByRowOfTheLowerTriangle) {
  on_every_target([] {
    for (const shape& s : shapes()) {
      SCOPED_TRACE(text(s));
      auto x = random_vectors(s, 3, 1);
      const auto dots = dots_of(s, x);
      std::size_t next = 0;
      for (std::size_t b = 0; b < s.batch; ++b) {
        for (std::size_t i = 0; i < s.vectors; ++i) {
          for (std::size_t j = 0; j < i; ++j) {
            double sum = 0;
            double magnitude = 0;
            for (std::size_t d = 0; d < s.dim; ++d) {
              const double term = static_cast<double>(x.at(b, i, d)) * static_cast<double>(x.at(b, j, d));
              sum += term;
              magnitude += std::abs(term);
            }
            ASSERT_NEAR(dots[next++], sum, magnitude * rounding * static_cast<double>(s.dim + 1)) << b << i << j;
          }
        }
      }
      EXPECT_EQ(next, dots.size());
    }
  });
}

TEST(Interaction, AVectorsGradientIsTheSumOverTheOthers) {
  on_every_target([] {
    for (const shape& s : shapes()) {
      SCOPED_TRACE(text(s));
      auto x = random_vectors(s, 1, 2);
      const auto grad_dots = source_of_numbers(3).numbers(s.batch * pair_count(s.vectors));
      auto grads = gradients_of(s, x, grad_dots, 2);
      const auto factor = [&](std::size_t b, std::size_t i, std::size_t j) {
        return static_cast<double>(grad_dots[b * pair_count(s.vectors) + pair_count(std::max(i, j)) + std::min(i, j)]);
      };
      for (std::size_t b = 0; b < s.batch; ++b) {
        for (std::size_t i = 0; i < s.vectors; ++i) {
          for (std::size_t d = 0; d < s.dim; ++d) {
            double sum = 0;
            double magnitude = 0;
            for (std::size_t j = 0; j < s.vectors; ++j) {
              if (j == i) continue;
              const double term = factor(b, i, j) * static_cast<double>(x.at(b, j, d));
              sum += term;
              magnitude += std::abs(term);
            }
            ASSERT_NEAR(grads.at(b, i, d), sum, magnitude * rounding * static_cast<double>(s.vectors + 1)) << b << i;
          }
        }
      }
      // The gaps between the vectors stay unchanged.
      for (std::size_t b = 0; b < s.batch; ++b) EXPECT_TRUE(std::isnan(grads.at(b, 0, s.dim + 1)));
    }
  });
}

TEST(Interaction, BitsDoNotDependOnWhereTheVectorsLie) {
  for (const shape& s : shapes()) {
    SCOPED_TRACE(text(s));
    auto x = random_vectors(s, 0, 4);
    auto apart = random_vectors(s, 5, 4);
    const auto dots = dots_of(s, x);
    EXPECT_TRUE(same_bits(dots_of(s, apart), dots));
    const auto grads = gradients_of(s, x, dots, 0);
    auto grads_apart = gradients_of(s, apart, dots, 5);
    for (std::size_t b = 0; b < s.batch; ++b) {
      for (std::size_t i = 0; i < s.vectors; ++i) {
        for (std::size_t d = 0; d < s.dim; ++d)
          ASSERT_EQ(grads_apart.at(b, i, d), grads.numbers[(b * s.vectors + i) * s.dim + d]);
      }
    }
  }
}

// All instruction sets with fused multiply-add give the same bits, because the order of summation is the same.
TEST(Interaction, BitsDoNotDependOnTheWidthOfVectors) {
  const shape s{5, 27, 33};
  auto x = random_vectors(s, 0, 5);
  std::vector<std::vector<float>> results;
  on_every_target([&] {
    constexpr std::int64_t not_fused = HWY_SSE4 | HWY_SSSE3 | HWY_SCALAR | HWY_EMU128;
    if ((hwy::SupportedTargets() & not_fused) != 0) return;
    auto dots = dots_of(s, x);
    const auto grads = gradients_of(s, x, dots, 0);
    dots.insert(dots.end(), grads.numbers.begin(), grads.numbers.end());
    results.push_back(std::move(dots));
  });
  for (const auto& one : results) EXPECT_TRUE(same_bits(one, results.front()));
}

}  // namespace
}  // namespace troupe::kernels::test::interaction_test
