#include "bench/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "kernels/cpu/blas.hpp"

namespace troupe::bench {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t table_bytes = std::size_t{256} << 20;
constexpr std::size_t row_floats = 64;

/// Calls per second of all cores together. Each core only calls its body, made by make(core), for a while. Uses each
/// core's median call.
template <class Make>
double rate_together(std::size_t cores, const Make& make) {
  constexpr std::chrono::milliseconds budget{500};
  std::barrier together(static_cast<std::ptrdiff_t>(cores));
  std::vector<double> rates(cores);
  std::vector<std::jthread> threads;
  for (std::size_t core = 0; core < cores; ++core) {
    threads.emplace_back([&, core, body = make(core)]() mutable {
      std::vector<double> seconds;
      together.arrive_and_wait();
      for (const auto begin = clock::now(); clock::now() - begin < budget;) {
        const auto from = clock::now();
        body();
        seconds.push_back(std::chrono::duration<double>(clock::now() - from).count());
      }
      const auto median = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
      std::nth_element(seconds.begin(), median, seconds.end());
      rates[core] = 1 / *median;
    });
  }
  for (std::jthread& one : threads) one.join();
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

struct unmap {
  void operator()(float* memory) const { munmap(memory, table_bytes); }
};

/// 256 MiB of ones on the largest available pages.
std::unique_ptr<float, unmap> make_table() {
  void* memory = mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, table_bytes, MADV_HUGEPAGE);
  std::unique_ptr<float, unmap> table(static_cast<float*>(memory));
  std::fill_n(table.get(), table_bytes / sizeof(float), 1.0F);
  return table;
}

/// All rows of the table in random order.
std::vector<std::uint32_t> shuffled_rows(std::uint32_t seed) {
  std::vector<std::uint32_t> rows(table_bytes / sizeof(float) / row_floats);
  std::iota(rows.begin(), rows.end(), 0U);
  std::shuffle(rows.begin(), rows.end(), std::mt19937(seed));
  return rows;
}

/// Copies the rows to a buffer in the first-level cache, and prefetches later rows to the second level, which supports
/// more outstanding reads than the first.
void read_rows(const float* table, const std::vector<std::uint32_t>& rows) {
  constexpr std::size_t ahead = 32;
  constexpr std::size_t line_floats = 16;
  alignas(64) float row[row_floats];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i + ahead < rows.size()) {
      const float* const later = table + rows[i + ahead] * row_floats;
      for (std::size_t at = 0; at < row_floats; at += line_floats) __builtin_prefetch(later + at, 0, 2);
    }
    std::memcpy(row, table + rows[i] * row_floats, sizeof(row));
    asm volatile("" : : "r"(row) : "memory");  // keeps the compiler from removing the copy
  }
}

}  // namespace

double copy_rate() {
  const auto from = make_table();
  const auto to = make_table();
  const double copies = rate_together(1, [&](std::size_t) {
    return [&] {
      std::memcpy(to.get(), from.get(), table_bytes);
      asm volatile("" : : "r"(to.get()) : "memory");
    };
  });
  return 2.0 * static_cast<double>(table_bytes) * copies;
}

double gather_rate(std::size_t cores) {
  const auto table = make_table();
  const double gathers = rate_together(cores, [&](std::size_t core) {
    return [&, rows = shuffled_rows(static_cast<std::uint32_t>(core))] { read_rows(table.get(), rows); };
  });
  return static_cast<double>(table_bytes) * gathers;
}

double sgemm_rate(std::size_t cores) {
  constexpr std::size_t n = 1024;
  constexpr auto plain = kernels::factor_form::plain;
  const std::vector<float> a(n * n, 0.5F);
  const std::vector<float> b(n * n, 0.25F);
  const double products = rate_together(cores, [&](std::size_t) {
    return [&, c = std::vector<float>(n * n)]() mutable {
      kernels::blas_product(plain, plain, n, n, n, a.data(), b.data(), 0.0F, c.data());
    };
  });
  return 2.0 * n * n * n * products;
}

}  // namespace troupe::bench
