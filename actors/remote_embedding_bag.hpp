// The remote module type `EmbeddingBag`.

#pragma once

#include "actors/remote_module.hpp"
#include "model/job.hpp"

namespace troupe {

/// See `make_remote_module`.
caf::expected<std::unique_ptr<remote_module>> make_remote_embedding_bag(const instantiate& order,
                                                                        kernels::device& where);

/// The specification from which `make_remote_embedding_bag` makes table `table` of a job.
module_spec embedding_bag_spec(const job& job, const table_spec& spec, std::size_t table);

/// What a checkpoint holds of each row of such a table.
std::vector<table_part> embedding_bag_parts(const job& job, const table_spec& spec);

}  // namespace troupe
