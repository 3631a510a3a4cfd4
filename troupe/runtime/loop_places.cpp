#include "troupe/runtime/loop_places.hpp"

#include <utility>

#include "base/assert.hpp"

namespace troupe::runtime {

/// Whether every open loop is in the iteration in which it was saved.
bool loop_places::is_on_saved_way() const {
  if (saved_.size() <= 2 * open_.size()) return false;
  for (std::size_t depth = 0; depth < open_.size(); ++depth)
    if (open_[depth].number != saved_[2 * depth] || open_[depth].done != saved_[2 * depth + 1]) return false;
  return true;
}

std::uint64_t loop_places::open(std::optional<std::uint64_t> iterations) {
  std::uint64_t done = 0;
  const std::size_t depth = open_.size();
  if (is_on_saved_way()) {
    const std::uint64_t number = saved_[2 * depth];
    if (next_ < number)
      done = done_all;
    else if (next_ == number && 2 * depth + 1 < saved_.size())
      done = saved_[2 * depth + 1];
  }
  left_before_step_ = false;
  open_.push_back({.number = next_, .done = done, .iterations = iterations});
  next_ = 0;
  return done;
}

void loop_places::enter() {
  TROUPE_ASSERT(!open_.empty());
  open_.back().is_entered = true;
}

void loop_places::advance() {
  TROUPE_ASSERT(!open_.empty());
  ++open_.back().done;
  open_.back().has_stepped = false;
  next_ = 0;
}

void loop_places::close() {
  TROUPE_ASSERT(!open_.empty());
  const level& ends = open_.back();
  const bool has_done_all = ends.iterations && ends.done == *ends.iterations;
  if (open_.size() == 1)
    ended_ = has_done_all ? std::vector{ends.number, ends.done, std::uint64_t{0}} : decltype(ended_)();
  next_ = ends.number + 1;
  open_.pop_back();
}

void loop_places::leave() {
  left_before_step_ = is_before_step();
  close();
}

bool loop_places::mark_step() { return open_.empty() || !std::exchange(open_.back().has_stepped, true); }

/// The position within the current iteration of the innermost loop, in the format of `place`.
std::vector<std::uint64_t> loop_places::here() const {
  std::vector<std::uint64_t> all;
  for (const level& one : open_) {
    all.push_back(one.number);
    all.push_back(one.done);
  }
  all.push_back(next_);
  return all;
}

/// Positions are ordered lexicographically; a prefix is before a longer one.
std::strong_ordering loop_places::against_saved() const { return here() <=> saved_; }

bool loop_places::is_before_saved() const {
  const auto order = against_saved();
  return std::is_lt(order) || (std::is_eq(order) && (open_.empty() || !open_.back().is_entered));
}

std::vector<std::uint64_t> loop_places::place() const {
  std::vector<std::uint64_t> all = here();
  if (open_.empty()) return ended_.empty() ? all : ended_;
  all.back() = 0;
  ++all[all.size() - 2];
  return all;
}

}  // namespace troupe::runtime
