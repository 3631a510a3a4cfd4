// What the measurements on a device have in common: their sizes, figures, times, numbers and checks.

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

/// Inputs that calls take in turns.
inline constexpr std::size_t turns = 4;

/// Indices of a bag.
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
  std::size_t rows_of_many;   ///< of each of a recommender's tables
  std::size_t batch_of_many;  ///< bags of each of them
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

/// Prints figures as they come, as lines of a table or of JSON.
class report {
 public:
  explicit report(bool json);
  void add(const figure& f) const;

 private:
  bool json_;
};

double seconds_since(clock::time_point begin);
double median(std::vector<double> values);

/// Seconds of one of the calls call(0), call(1), ... that only enqueue: many of them between two waits for the device,
/// the median of several rounds.
double seconds_of(kernels::stream& on, const std::function<void(std::size_t)>& call);

/// Numbers in [-1, 1). What is on the device repeats them, so that the host knows each of those.
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

/// What a number near 1 may be off by once it has been rounded.
double rounding_of(matmul_precision precision);

/// A sum in double, and what its float32 counterpart may be off by.
struct host_sum {
  void add(double term) {
    value += term;
    magnitude += std::abs(term);
    ++terms;
  }

  /// How far a sum may be off whose terms lie in [-1, 1), come from numbers rounded to `rounding`, and are added up in
  /// float32 in whatever order. Each of n terms is off by its rounding; each of n additions is off by at most 2^-24 of
  /// the sum of the terms' magnitudes, which no partial sum exceeds. Errors are as often up as down, so that n of them
  /// add up to sqrt(n) times one of them, and this is three standard deviations of the additions' where the partial
  /// sums only ever grow.
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
