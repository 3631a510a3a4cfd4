// The bubble of pipelines: stages sleep instead of computing, all equally long, so that few cores suffice. Prints a
// line of JSON for each schedule and each number of stages and micro-batches: the share of the stages' time without
// work, beside (P - 1) / (M + P - 1); if steps overlap, M is their number.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <thread>

#include "actors/common/faults.hpp"
#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "model/stages.hpp"

namespace troupe::bench {

/// Sleeps for each pass: a backward pass takes twice as long as a forward pass.
class sleeping_stages final : public actors::fault_injector {
 public:
  void passing(std::uint32_t /*stage*/, bool forward) override {
    constexpr std::chrono::microseconds one{3000};
    std::this_thread::sleep_for(forward ? one : 2 * one);
  }
};

/// Runs a job of `steps` steps, and prints its line. Returns false on failure. `alike`: the number of passes that a
/// stage makes in a row before it is empty.
bool measure(const char* schedule, std::size_t stages, std::size_t micro_batches, std::size_t steps,
             std::size_t alike) {
  const auto what = model::parse_job({{"data", "synthetic"},
                                      {"rows", "10"},
                                      {"dim", "8"},
                                      {"bag", "1"},
                                      {"batch-size", "64"},
                                      {"steps", std::to_string(steps)},
                                      {"trainers", "1"},
                                      {"hidden", "8,8,8"},
                                      {"pipeline", std::to_string(stages)},
                                      {"stages", stages == 2 ? "0,2" : "0,2,4,6"},
                                      {"schedule", schedule},
                                      {"micro-batches", std::to_string(micro_batches)}});
  nodes::run_options options;
  options.threads = stages + 2;
  const auto run = what ? nodes::run_job(*what, options, nullptr) : tl::unexpected(what.error());
  if (!run || !run->bubble) {
    std::fprintf(stderr, "%s\n", run ? "no bubble" : run.error().message.c_str());
    return false;
  }
  std::puts(fmt::format(R"({{"schedule": "{}", "stages": {}, "micro_batches": {}, "steps": {}, "bubble": {:.4f}, )"
                        R"("of_equal_stages": {:.4f}}})",
                        schedule, stages, micro_batches, steps, *run->bubble, model::bubble_of(stages, alike))
                .c_str());
  std::fflush(stdout);
  return true;
}

int measure_all() {
  sleeping_stages sleeping;
  actors::install_faults(&sleeping);
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const std::size_t stages : {2, 4})
      for (const std::size_t micro_batches : {1, 2, 4, 8, 16})
        if (!measure(schedule, stages, micro_batches, 20, micro_batches)) return 1;
  // Overlapping steps empty the pipeline once.
  for (const std::size_t stages : {2, 4})
    for (const std::size_t steps : {16, 64})
      if (!measure("pipedream", stages, 1, steps, steps)) return 1;
  return 0;
}

}  // namespace troupe::bench

int main() { return troupe::bench::measure_all(); }
