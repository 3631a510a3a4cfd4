#include "cluster/nodes/thread_memory.hpp"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "base/host_memory.hpp"
#include "kernels/cpu/blas.hpp"
#include "kernels/cpu/product_buffers.hpp"

namespace troupe::nodes {

namespace {

constexpr std::size_t further_threads = 8;  // for the actor system's clock and the like

/// Memory that a run needs for messages, batches and the like.
constexpr std::uint64_t least_bytes = std::uint64_t{64} << 20;

/// The GNU allocator makes one heap for each thread.
constexpr std::uint64_t bytes_of_heap = std::uint64_t{64} << 20;

/// Returns how many heaps the process may have; 0: address space is not limited.
std::uint64_t heaps_here() {
  constexpr std::uint64_t part = 8;  // heaps get an eighth of the limit
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return std::clamp<std::uint64_t>(limit.rlim_cur / part / bytes_of_heap, 1, 1024);
}

void share_heaps() {
  if (const std::uint64_t heaps = heaps_here(); heaps > 0) mallopt(M_ARENA_MAX, static_cast<int>(heaps));
}

/// Returns the bytes to keep free for stacks, heaps, and `room`.
std::uint64_t bytes_besides(std::size_t wanted, std::uint64_t room) {
  pthread_attr_t usual;
  std::size_t stack = 0;
  if (pthread_getattr_default_np(&usual) == 0) {
    pthread_attr_getstacksize(&usual, &stack);
    pthread_attr_destroy(&usual);
  }
  const std::uint64_t threads = worker_threads(wanted) + further_threads;
  // One heap more: the allocator briefly maps two, to get an aligned one.
  const std::uint64_t heaps = heaps_here() > 0 ? std::min(heaps_here(), threads) + 1 : 0;
  std::uint64_t all = threads * std::uint64_t{stack} + heaps * bytes_of_heap + least_bytes;
  return __builtin_add_overflow(all, room, &all) ? ~std::uint64_t{0} / 2 : all;
}

/// Advice besides higher limits.
const char* or_fewer(std::size_t threads) { return threads > 1 ? ", or use fewer --threads" : ""; }

result<void> refuse(std::size_t wanted) {
  const std::size_t threads = worker_threads(wanted);
  return bad_input("--threads {}: {}{}", threads, kernels::no_product_memory().what(), or_fewer(threads));
}

}  // namespace

std::size_t worker_threads(std::size_t wanted) { return wanted > 0 ? wanted : std::thread::hardware_concurrency(); }

result<void> check_threads(std::size_t wanted) {
  share_heaps();
  const std::size_t threads = worker_threads(wanted);
  std::atomic<bool> start = false;
  std::vector<std::thread> started;
  bool all = true;
  try {
    while (started.size() < threads + further_threads) started.emplace_back([&start] { start.wait(false); });
  } catch (const std::system_error&) {
    all = false;
  }
  const std::size_t count = started.size();
  start = true;
  start.notify_all();
  for (std::thread& one : started) one.join();
  if (all) return {};
  return bad_input(
      "--threads {}: the limits of this process (ulimit -v, ulimit -u, pids.max) let it start {} threads, {} are "
      "needed; "
      "raise them{}",
      threads, count, threads + further_threads, or_fewer(threads));
}

result<void> prepare_products(std::size_t wanted, std::uint64_t room) {
  if (kernels::reserve_products(worker_threads(wanted), bytes_besides(wanted, room)) == 0) return refuse(wanted);
  return {};
}

result<void> check_products(std::size_t wanted, std::uint64_t room) {
  if (has_address_space(kernels::product_buffers::bytes + bytes_besides(wanted, room))) return {};
  return refuse(wanted);
}

}  // namespace troupe::nodes
