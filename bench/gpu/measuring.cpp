#include "bench/gpu/measuring.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <stdexcept>

namespace troupe::bench {
namespace {

constexpr std::size_t rounds = 7;
constexpr double round_seconds = 0.02;

void line(const char* item, const std::string& what, const std::string& ms, const std::string& rate, const char* unit,
          const std::string& share, const std::string& host) {
  fmt::print("{:<7} {:<36} {:>10} {:>12} {:<9} {:>7} {:>8}\n", item, what, ms, rate, unit, share, host);
}

}  // namespace

report::report(bool json) : json_(json) {
  if (!json_) line("item", "what", "ms", "rate", "unit", "limit %", "host us");
}

void report::add(const figure& f) const {
  const auto share = f.limit > 0 ? fmt::format("{:.1f}", 100 * f.rate / f.limit) : std::string();
  const auto host = f.host_seconds > 0 ? fmt::format("{:.1f}", 1e6 * f.host_seconds) : std::string();
  if (json_) {
    fmt::print(R"({{"item":"{}","what":"{}","ms":{:.6g},"rate":{:.6g},"unit":"{}","limit_pct":{},"host_us":{}}})"
               "\n",
               f.item, f.what, 1e3 * f.seconds, f.rate, f.unit, share.empty() ? "null" : share,
               host.empty() ? "null" : host);
  } else {
    line(f.item, f.what, fmt::format("{:.4f}", 1e3 * f.seconds), fmt::format("{:.1f}", f.rate), f.unit, share, host);
  }
  std::fflush(stdout);
}

double seconds_since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double seconds_of(kernels::stream& on, const std::function<void(std::size_t)>& call) {
  std::size_t turn = 0;
  const auto round = [&](std::size_t calls) {
    on.synchronize();
    const auto begin = clock::now();
    for (std::size_t i = 0; i < calls; ++i) call(turn++ % turns);
    on.synchronize();
    return seconds_since(begin) / static_cast<double>(calls);
  };
  round(2 * turns);  // memory grows, graphs are captured
  std::size_t calls = turns;
  while (round(calls) * static_cast<double>(calls) < round_seconds) calls *= 2;
  std::vector<double> seconds(rounds);
  for (double& one : seconds) one = round(calls);
  return median(seconds);
}

const std::vector<float>& pattern() {
  static const std::vector<float> numbers = [] {
    std::mt19937 engine(7);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> made(1'000'003);
    for (float& number : made) number = uniform(engine);
    return made;
  }();
  return numbers;
}

double rounding_of(matmul_precision precision) {
  switch (precision) {
    case matmul_precision::tf32:
      return 0x1p-9;
    case matmul_precision::bf16:
      return 0x1p-6;
    default:
      return 0x1p-16;
  }
}

void expect(const char* what, double got, double want, double tolerance) {
  if (std::abs(got - want) <= tolerance) return;
  throw std::runtime_error(fmt::format("{}: the device has computed {}, the host {}, of which it may be off by {}",
                                       what, got, want, tolerance));
}

}  // namespace troupe::bench
