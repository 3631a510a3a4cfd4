#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/result.hpp"
#include "model/datasets.hpp"
#include "model/replay.hpp"
#include "model/replay_file.hpp"

namespace troupe::model {

namespace {

// The settings that a reference run decides.
constexpr std::array decided{"data",        "trainers",  "steps",           "hidden",
                             "interaction", "loss",      "dense-optimizer", "sparse-optimizer",
                             "dense-lr",    "sparse-lr", "sparse-reduce"};

}  // namespace

std::vector<setting> replay_settings(const std::string& path, const replay_config& config) {
  job what;
  what.data = fmt::format("{}{}", replay_prefix, path);
  what.trainers = config.trainers;
  what.steps = config.steps;
  what.hidden = config.hidden;
  what.loss = config.loss;
  what.dense_optimizer = config.dense_optimizer;
  what.sparse_optimizer = config.sparse_optimizer;
  what.sparse_reduce = config.sparse_reduce;
  auto settings = to_settings(what);
  std::erase_if(settings, [](const setting& one) { return std::ranges::find(decided, one.first) == decided.end(); });
  return settings;
}

result<reference_run> open_reference_run(const std::string& path) {
  TROUPE_TRY(file, replay_file::open(path));
  reference_run run;
  run.settings = replay_settings(path, file.config);
  TROUPE_SET(run.tables, file.tables<double>("final"));
  TROUPE_SET(run.dense, file.dense<double>("final"));
  for (std::uint32_t rank = 0; rank < file.config.trainers; ++rank) {
    auto losses = file.reals<double>(fmt::format("trainer.{}.loss", rank), file.config.steps);
    if (!losses) return tl::unexpected(std::move(losses.error()));
    run.losses.push_back(std::move(*losses));
  }
  return run;
}

}  // namespace troupe::model
