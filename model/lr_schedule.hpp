// Learning rate schedules: a factor on the learning rate for each optimizer step.
//
// A schedule is a sequence of pieces. Each counts its own steps s from 1:
//
//   constant         1; never ends
//   warmup:STEPS     s / STEPS for STEPS steps; as the last piece it stays at 1
//   step:EVERY,GAMMA GAMMA ^ floor((s - 1) / EVERY); never ends
//   cosine:STEPS     (1 + cos(pi (s - 1) / STEPS)) / 2 for STEPS steps; as the last piece it stays at 0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace troupe::model {

struct lr_schedule {
  enum class shape : std::uint8_t { constant, warmup, step, cosine };

  struct piece {
    shape form = shape::constant;
    std::uint64_t steps = 0;  ///< STEPS or EVERY; unused by constant
    double gamma = 0;         ///< GAMMA, for `step`

    bool operator==(const piece&) const = default;
  };

  /// Not empty; all pieces except the last one end.
  std::vector<piece> pieces{{}};

  bool operator==(const lr_schedule&) const = default;
};

/// Parses pieces joined by `+`, e.g. `warmup:100+cosine:900`. Refuses unknown names, numbers out of range, and a piece
/// after one that never ends.
result<lr_schedule> parse_lr_schedule(std::string_view text);

/// Returns the text from which `parse_lr_schedule` makes `schedule`.
std::string to_string(const lr_schedule& schedule);

/// Returns the factor on the learning rate in optimizer step `step` (from 1).
double factor_at(const lr_schedule& schedule, std::uint64_t step);

}  // namespace troupe::model
