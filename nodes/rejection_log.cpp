#include "nodes/rejection_log.hpp"

#include <fmt/format.h>

#include <utility>

namespace troupe::nodes {

std::optional<std::string> rejection_log::add(const std::string& line, clock::time_point now) {
  if (suppressed_ == 0 && (told_ == 0 || now - begin_ >= interval)) {
    begin_ = now;
    told_ = 0;
  }
  if (told_ < reported_each) {
    ++told_;
    return line;
  }
  ++suppressed_;
  last_ = line;
  return std::nullopt;
}

std::optional<rejection_log::clock::time_point> rejection_log::due() const {
  if (suppressed_ == 0) return std::nullopt;
  return begin_ + interval;
}

std::optional<std::string> rejection_log::summary() {
  if (suppressed_ == 0) return std::nullopt;
  told_ = 0;
  return fmt::format("{} more within {} s, the last: {}", std::exchange(suppressed_, 0), interval.count(), last_);
}

}  // namespace troupe::nodes
