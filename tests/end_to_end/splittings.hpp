// Eight ways to split a run over trainers, and the jobs that are split: a network of convolutions, and a wide MLP with
// tables on servers. For tests on one machine and on several.

#pragma once

#include <fmt/format.h>

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/end_to_end/layered_job.hpp"

namespace troupe::end_to_end {

struct splitting {
  int trainers;  ///< replicas
  int pipeline;  ///< per replica
  int slices;    ///< per stage

  int ranks() const { return trainers * pipeline * slices; }

  /// Options of the run that has the same bits and is split into slices only: bits depend on the number of slices.
  args whole() const {
    args options = {"--trainers", std::to_string(trainers)};
    if (slices > 1) options.insert(options.end(), {"--tensor-parallel", std::to_string(slices)});
    return options;
  }

  args with_schedule(const std::string& schedule) const {
    args options = whole();
    options.insert(options.end(), {"--pipeline", std::to_string(pipeline)});
    if (pipeline > 1) options.insert(options.end(), {"--schedule", schedule});
    return options;
  }
};

const std::vector<splitting> eight_splittings = {{1, 2, 1}, {2, 2, 1}, {2, 3, 1}, {1, 4, 1},
                                                 {1, 1, 2}, {2, 1, 2}, {1, 2, 2}, {2, 2, 2}};

/// A job without its splitting and steps.
struct split_job {
  const char* name;
  int servers;
  args (*options)();
};

const std::vector<split_job> split_jobs = {
    {"images", 0,
     [] {
       return args{layered_job_file(paired_convolutions()), "--micro-batches", "4"};
     }},
    {"wide_mlp", 1, [] { return args{"--data", "adult", "--hidden", "256,128,64", "--micro-batches", "4"}; }}};

using split_run = std::tuple<split_job, splitting>;

/// For example `images_2x3x1`.
inline std::string name_of(const split_run& one) {
  const auto& [job, cut] = one;
  return fmt::format("{}_{}x{}x{}", job.name, cut.trainers, cut.pipeline, cut.slices);
}

inline void PrintTo(const split_run& one, std::ostream* out) { *out << name_of(one); }

}  // namespace troupe::end_to_end
