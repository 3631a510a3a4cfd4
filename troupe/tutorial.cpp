#include "troupe/tutorial.hpp"

#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe {

std::vector<tutorial_batch> tutorial_batches(std::uint64_t seed, std::uint32_t rank, std::uint64_t epoch) {
  model::job what;  // not parsed, which would take longer than drawing the batches
  what.data = "tutorial";
  what.seed = seed;
  what.loss = model::loss_kind::cross_entropy;
  const auto data = model::open_dataset(what).value();
  std::vector<tutorial_batch> batches;
  const std::uint64_t steps = data->steps_per_epoch();
  batches.reserve(steps);
  for (std::uint64_t i = 0; i < steps; ++i) {
    model::batch drawn = data->train_batch(epoch * steps + i, rank).value();
    model::bags& bags = drawn.tables.front();
    batches.push_back({std::move(bags.indices), std::move(bags.offsets), std::move(drawn.classes)});
  }
  return batches;
}

}  // namespace troupe
