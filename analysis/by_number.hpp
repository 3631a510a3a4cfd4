// What is to be known of actors or types, by their number, asked for again and again.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

namespace troupe::analysis {

/// Finds it once for each number. For one thread.
template <class Value>
class by_number {
 public:
  explicit by_number(std::function<Value(std::uint16_t)> find) : find_(std::move(find)) {}

  /// Stays where it is.
  const Value& operator[](std::uint16_t number) {
    if (number >= known_.size()) known_.resize(std::size_t{number} + 1);
    if (!known_[number]) known_[number] = find_(number);
    return *known_[number];
  }

 private:
  std::function<Value(std::uint16_t)> find_;
  std::deque<std::optional<Value>> known_;
};

}  // namespace troupe::analysis
