// The bubble of pipelines: stages that sleep instead of computing, as long each, so that it can be measured on few
// cores. Prints a line of JSON for each number of stages and micro-batches and each schedule: the share of the stages'
// time in which they had nothing to do, beside (P - 1) / (M + P - 1).

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <thread>

#include "actors/faults.hpp"
#include "model/job.hpp"
#include "model/stages.hpp"
#include "nodes/run_job.hpp"

namespace troupe::bench {

/// Takes so long for each pass: a backward pass takes twice as long as a forward pass.
class sleeping_stages final : public actors::fault_injector {
 public:
  void passing(std::uint32_t /*stage*/, bool forward) override {
    constexpr std::chrono::microseconds one{3000};
    std::this_thread::sleep_for(forward ? one : 2 * one);
  }
};

int measure() {
  sleeping_stages sleeping;
  actors::install_faults(&sleeping);
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const std::size_t stages : {2, 4})
      for (const std::size_t micro_batches : {1, 2, 4, 8, 16}) {
        const auto what = model::parse_job({{"data", "synthetic"},
                                            {"rows", "10"},
                                            {"dim", "8"},
                                            {"bag", "1"},
                                            {"batch-size", "64"},
                                            {"steps", "20"},
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
          return 1;
        }
        std::puts(fmt::format(R"({{"schedule": "{}", "stages": {}, "micro_batches": {}, "bubble": {:.4f}, )"
                              R"("of_equal_stages": {:.4f}}})",
                              schedule, stages, micro_batches, *run->bubble, model::bubble_of(stages, micro_batches))
                      .c_str());
        std::fflush(stdout);
      }
  return 0;
}

}  // namespace troupe::bench

int main() { return troupe::bench::measure(); }
