// How tables are specified: as arguments of the module type `EmbeddingBag`, from a job and back.

#pragma once

#include <cstddef>
#include <vector>

#include "model/checkpoint/manifest.hpp"
#include "model/embedding_bag.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

struct embedding_bag_arguments {
  model::embedding_bag_options options;
  model::sparse_reduction reduce = model::sparse_reduction::mean;
};

/// See `make_remote_module`. An error names the argument that is wrong.
caf::expected<embedding_bag_arguments> read_embedding_bag(const msg::instantiate& order);

/// The specification of table `table` of a job.
msg::module_spec embedding_bag_spec(const model::job& job, const model::table_spec& spec, std::size_t table);

/// How a checkpoint calls the types that a table has.
model::tensor_type tensor_type_of(msg::dtype type);

/// What a checkpoint holds of each row of such a table.
std::vector<model::table_part> embedding_bag_parts(const model::job& job, const model::table_spec& spec);

}  // namespace troupe::actors
