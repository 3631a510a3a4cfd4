// Tables as arguments of the module type `EmbeddingBag`: made from a job, and read back.

#pragma once

#include <cstddef>

#include "kernels/device.hpp"
#include "model/checkpoint/manifest.hpp"
#include "model/embedding_bag.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

struct embedding_bag_arguments {
  model::embedding_bag_options options;
  model::sparse_reduction reduce = model::sparse_reduction::mean;
};

/// Reads a specification (see `make_remote_module`). The error names the invalid argument.
caf::expected<embedding_bag_arguments> read_embedding_bag(const msg::instantiate& order);

/// Returns an error if the optimizer does not compute on `where`, or the device's memory is too small for the shard.
caf::error check_place(const model::embedding_bag_options& options, const kernels::device& where);

/// The same for another optimizer, whose state is allocated in addition to the shard's rows.
caf::error check_state_place(const model::embedding_bag_options& options, const model::optimizer_spec& optimizer,
                             const kernels::device& where);

/// Returns the specification of table number `table` of a job; each shard holds rows or columns of it.
msg::module_spec embedding_bag_spec(const model::job& job, const model::table_spec& spec, std::size_t table,
                                    model::table_split split = model::table_split::rows);

}  // namespace troupe::actors
