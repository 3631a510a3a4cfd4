#include "actors/trainer/replica_options.hpp"

#include "model/stages.hpp"

namespace troupe::actors {

dense_replica::options replica_options(const model::job& what, const model::data_spec& spec,
                                       const model::stage_place& at, nn::slice_sums* slices) {
  constexpr double mib = 1024 * 1024;
  dense_replica::options made{.parameters = {.optimizer = model::with_rates_of_members(what.dense_optimizer, what),
                                             .bucket_bytes = static_cast<std::size_t>(what.bucket_mib * mib),
                                             .watches = what.nan == model::nan_policy::stop,
                                             .applies_whole = what.clip_norm > 0 || what.nan == model::nan_policy::skip,
                                             .precision = what.matmul_precision},
                              .micro_batches = what.micro_batches,
                              .slices = slices};
  // The leader adds the norms of all parts, so tensors that every slice has must count once.
  if (at.slice.slices > 1)
    made.parameters.normed = model::counted_once(model::parts_of_network(what, spec).parts[at.part()], at.slice.slice);
  return made;
}

}  // namespace troupe::actors
