#include "cluster/turned_away.hpp"

#include <fmt/format.h>

#include <utility>

namespace troupe {

std::optional<std::string> turned_away::add(const std::string& line, clock::time_point now) {
  if (untold_ == 0 && (told_ == 0 || now - begin_ >= interval)) {
    begin_ = now;
    told_ = 0;
  }
  if (told_ < told_each) {
    ++told_;
    return line;
  }
  ++untold_;
  last_ = line;
  return std::nullopt;
}

std::optional<turned_away::clock::time_point> turned_away::due() const {
  if (untold_ == 0) return std::nullopt;
  return begin_ + interval;
}

std::optional<std::string> turned_away::summary() {
  if (untold_ == 0) return std::nullopt;
  told_ = 0;
  return fmt::format("{} more within {} s, the last: {}", std::exchange(untold_, 0), interval.count(), last_);
}

}  // namespace troupe
