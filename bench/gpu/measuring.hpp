// Shared by the measurements on a device: sizes, figures, times, numbers and checks.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device_array.hpp"

namespace troupe::bench {

using clock = std::chrono::steady_clock;
using kernels::device_array;
using kernels::matmul_precision;
using kernels::row_dtype;

/// The number of inputs that calls rotate through.
inline constexpr std::size_t turns = 4;

/// Indices per bag.
inline constexpr std::size_t bag = 26;

/// Width of the tables.
inline constexpr std::size_t dim = 128;

struct sizes {
  explicit sizes(std::size_t scale)
      : copied(std::max<std::size_t>(1, (std::size_t{1} << 28) / scale)),
        rows(std::max<std::size_t>(1, 1'000'000 / scale)),
        batch(std::max<std::size_t>(1, 65'536 / scale)),
        side(std::max<std::size_t>(64, 8192 / scale)),
        rows_of_many(std::max<std::size_t>(1000, 1'677'721 / scale)),
        batch_of_many(std::max<std::size_t>(16, 4559 / scale)) {}

  std::size_t copied;  ///< floats
  std::size_t rows;
  std::size_t batch;
  std::size_t side;           ///< of the large product
  std::size_t rows_of_many;   ///< of each of the recommender's tables
  std::size_t batch_of_many;  ///< bags of each table
};

struct figure {
  const char* item;
  std::string what;
  double seconds;
  double rate;
  const char* unit;
  double limit = 0;         ///< of the rate; 0: none
  double host_seconds = 0;  ///< 0: not measured
};

/// Prints figures as they come, as a table's lines or as JSON.
class report {
 public:
  explicit report(bool json);
  void add(const figure& f) const;

 private:
  bool json_;
};

double seconds_since(clock::time_point begin);
double median(std::vector<double> values);

/// Seconds per call of call(0), call(1), ..., which only enqueue: many calls between two waits for the device, the
/// median of several rounds.
double seconds_of(kernels::stream& on, const std::function<void(std::size_t)>& call);

/// Numbers in [-1, 1). Data on the device repeat them, so that the host knows each number.
const std::vector<float>& pattern();
inline float number_at(std::size_t i) { return pattern()[i % pattern().size()]; }

template <class T>
kernels::device_array<T> repeated(kernels::stream& on, std::span<const T> numbers, std::size_t count) {
  kernels::device_array<T> all;
  all.resize(on, count);
  std::size_t filled = std::min(count, numbers.size());
  on.upload(numbers.data(), all.data(), filled * sizeof(T));
  while (filled < count) {
    const std::size_t more = std::min(filled, count - filled);
    on.copy(all.data(), all.data() + filled, more * sizeof(T));
    filled += more;
  }
  on.synchronize();
  return all;
}

inline kernels::device_array<float> numbers(kernels::stream& on, std::size_t count) {
  return repeated<float>(on, pattern(), count);
}

template <class T>
T number_on(kernels::stream& on, const T* from) {
  std::vector<T> copy;
  return kernels::on_host(on, from, 1, copy)[0];
}

/// The possible error of a number near 1 after rounding.
double rounding_of(matmul_precision precision);

/// A sum in double, and the possible error of its float32 counterpart.
struct host_sum {
  void add(double term) {
    value += term;
    magnitude += std::abs(term);
    ++terms;
  }

  /// The possible error of a float32 sum in any order, of terms in [-1, 1) made from numbers rounded to `rounding`.
  /// Each of n terms has its rounding error; each of n additions has an error of at most 2^-24 of the sum of the terms'
  /// magnitudes, which no partial sum exceeds. Errors have random signs, so n of them add up to sqrt(n) times one; this
  /// is three standard deviations of the additions' error if the partial sums only grow.
  double tolerance(double rounding) const {
    return std::sqrt(static_cast<double>(terms)) * (rounding + 0x1p-24 * magnitude);
  }

  double value = 0;
  double magnitude = 0;
  std::size_t terms = 0;
};

/// Throws unless `got` is `want` within `tolerance`.
void expect(const char* what, double got, double want, double tolerance);

}  // namespace troupe::bench
