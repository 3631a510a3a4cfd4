// Values by key: in a map, or by the number of an actor or type, made once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>

namespace troupe::analysis {

/// The value that `map` has for `key`, or null.
template <class Map>
auto* find_in(Map& map, const typename Map::key_type& key) {
  const auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

/// The value for each number of an actor or type, made by `find` when it is first asked for. For one thread.
template <class Value>
class by_number {
 public:
  explicit by_number(std::function<Value(std::uint16_t)> find) : find_(std::move(find)) {}

  /// The reference stays valid.
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
