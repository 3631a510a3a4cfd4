// Overlapping steps of a network in parts (`--schedule pipedream`). The leader begins the next steps, as many as there
// are stages, before it uses a step's gradient. The trainer's current step is the one whose gradient comes next.

#pragma once

#include <cstdint>

#include "actors/trainer/pipeline_leader.hpp"

namespace troupe::actors {

/// Belongs to the trainer's actor. On the processor only.
class stream_leader final : public pipeline_leader {
 public:
  using pipeline_leader::pipeline_leader;

  void look_up_for(std::uint64_t step) override;
  bool has_rows_for(std::uint64_t step) const override;
  void run() override;

 private:
  bool pass_on() override;
  std::uint64_t forwards_through(std::uint64_t from) const;
  caf::error begin_in_stream(step_work::context& next);
};

}  // namespace troupe::actors
