// OpenBLAS products against sums in double, and the choice of its kernels.

#include "kernels/cpu/blas.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/support.hpp"

namespace troupe::kernels::test::blas_test {
namespace {

constexpr auto plain = factor_form::plain;
constexpr auto transposed = factor_form::transposed;

TEST(Blas, ProductTakesEachFactorPlainOrTransposed) {
  source_of_numbers random(1);
  constexpr std::size_t m = 37;
  constexpr std::size_t n = 21;
  constexpr std::size_t k = 65;
  const auto a = random.numbers(m * k);
  const auto b = random.numbers(k * n);
  for (const auto a_form : {plain, transposed}) {
    for (const auto b_form : {plain, transposed}) {
      std::vector<float> c(m * n, std::numeric_limits<float>::quiet_NaN());
      blas_product(a_form, b_form, m, n, k, a.data(), b.data(), 0.0F, c.data());
      auto doubled = c;
      blas_product(a_form, b_form, m, n, k, a.data(), b.data(), 1.0F, doubled.data());
      for (std::size_t row = 0; row < m; ++row) {
        for (std::size_t column = 0; column < n; ++column) {
          double sum = 0;
          for (std::size_t i = 0; i < k; ++i) {
            sum += static_cast<double>(a_form == plain ? a[row * k + i] : a[i * m + row]) *
                   static_cast<double>(b_form == plain ? b[i * n + column] : b[column * k + i]);
          }
          ASSERT_NEAR(c[row * n + column], sum, k * rounding * k) << row << ", " << column;
          ASSERT_NEAR(doubled[row * n + column], 2 * sum, 2 * k * rounding * k) << row << ", " << column;
        }
      }
    }
  }
}

// The library sets OPENBLAS_CORETYPE unless the user has; then this compares with the user's choice.
TEST(Blas, KernelsAreThoseOfTheInstructionSet) {
  const std::string kernels = blas_kernels();
  EXPECT_NE(kernels, "");
  const char* wanted = std::getenv("OPENBLAS_CORETYPE");
#if HWY_ARCH_X86
  if ((hwy::SupportedTargets() & HWY_AVX2) != 0) {
    ASSERT_NE(wanted, nullptr);
    EXPECT_EQ(kernels, wanted);
  }
#else
  static_cast<void>(wanted);
#endif
}

}  // namespace
}  // namespace troupe::kernels::test::blas_test
