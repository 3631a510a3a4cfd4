// How a learning rate changes from optimizer step to optimizer step: a factor on it.
//
// A schedule is pieces that follow one another in time. Each counts its own steps s from 1:
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
    std::uint64_t steps = 0;  ///< STEPS or EVERY; constant has none
    double gamma = 0;         ///< step

    bool operator==(const piece&) const = default;
  };

  /// Never empty; all but the last one end.
  std::vector<piece> pieces{{}};

  bool operator==(const lr_schedule&) const = default;
};

/// Reads pieces joined by `+`, e.g. `warmup:100+cosine:900`. Unknown names, numbers out of range and a piece after one
/// that never ends are refused.
result<lr_schedule> parse_lr_schedule(std::string_view text);

/// The text from which `parse_lr_schedule` makes `schedule` again.
std::string to_string(const lr_schedule& schedule);

/// The factor on the learning rate of optimizer step `step` (1 for the first).
double factor_at(const lr_schedule& schedule, std::uint64_t step);

}  // namespace troupe::model
