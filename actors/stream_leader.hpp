// Steps of a network in parts that overlap (`--schedule pipedream`). The leader begins the next steps before it takes a
// step's gradient, as many as there are stages. A step of the trainer is that of its gradient.

#pragma once

#include <cstdint>

#include "actors/part_leader.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor. On the processor only.
class stream_leader final : public part_leader {
 public:
  using part_leader::part_leader;

  void look_up_for(std::uint64_t step) override;
  bool has_rows_for(std::uint64_t step) const override;
  void run() override;

 private:
  bool pass_on() override;
  std::uint64_t forwards_through(std::uint64_t from) const;
  caf::error begin_in_stream(step_work::context& next);
};

}  // namespace troupe::actors
