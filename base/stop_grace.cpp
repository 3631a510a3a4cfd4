#include "base/stop_grace.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

namespace troupe {

namespace {

std::atomic<int> uncounted = 0;

struct all_code {
  std::mutex mutex;
  std::uint64_t entered = 0;
  std::vector<std::pair<std::uint64_t, const code_under_way::describer*>> open;
};

/// Never destroyed: a thread may read it while the process exits.
all_code& registered() {
  static auto* const all = new all_code;
  return *all;
}

}  // namespace

uncounted_time::uncounted_time() { uncounted.fetch_add(1, std::memory_order_relaxed); }
uncounted_time::~uncounted_time() { uncounted.fetch_sub(1, std::memory_order_relaxed); }

bool time_counts() { return uncounted.load(std::memory_order_relaxed) == 0; }

code_under_way::code_under_way(describer describe) : describe_(std::move(describe)) {
  all_code& all = registered();
  const std::lock_guard lock(all.mutex);
  id_ = ++all.entered;
  all.open.emplace_back(id_, &describe_);
}

code_under_way::~code_under_way() {
  all_code& all = registered();
  const std::lock_guard lock(all.mutex);
  all.open.erase(std::ranges::find(all.open, id_, [](const auto& one) { return one.first; }));
}

std::vector<open_code> code_under_way::all() {
  all_code& all = registered();
  const std::lock_guard lock(all.mutex);
  std::vector<open_code> found;
  for (const auto& [id, describe] : all.open)
    if (auto one = (*describe)()) {
      one->id = id;
      found.push_back(std::move(*one));
    }
  return found;
}

}  // namespace troupe
