// Troupe's layers, and the tables of servers.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"
#include "base/table_choices.hpp"
#include "nn/all_layers.hpp"

namespace troupe::nn {

using troupe::pooling;
using troupe::reduction;
using troupe::row_init;
using troupe::table_split;

/// Rows from N(0, 1), PyTorch's and the default, times `deviation`.
constexpr row_init normal(double deviation) { return {row_init::kind::normal, deviation, 0}; }
/// Rows of uniform numbers from `least` to `most`.
constexpr row_init uniform(double least, double most) { return {row_init::kind::uniform, least, most}; }
/// Rows of zeros.
inline constexpr row_init zeros = uniform(0, 0);

/// A table of rows that looks up and pools bags. It is on one server, or spread over all of them: see `server::make`
/// and `cluster::make`.
struct embedding_bag {
  /// The arguments of PyTorch's EmbeddingBag, and more.
  struct options {
    std::int64_t num_embeddings = 0;
    std::size_t embedding_dim = 0;
    pooling mode = pooling::mean;
    reduction reduce = reduction::sum;
    row_init init = {};
    /// The number type of its rows, as in `troupe train --row-dtype`: float32, float16 or bfloat16.
    dtype row_dtype = dtype::f32;
    /// The number type of rows and gradients between servers and trainers, as in `--wire-dtype`: the same three.
    dtype wire_dtype = dtype::f32;
    /// How `cluster::make` cuts it into shards.
    table_split split = table_split::rows;
    /// The table's name in errors: letters, digits, '_' and '-', beginning with a letter. If empty or null, a table
    /// that `main` makes is named by its index among the modules there, as in checkpoints: `table 0`. Not a
    /// std::string, which gcc 12 would destroy twice in some coroutines.
    const char* name = "";
  };
};

}  // namespace troupe::nn
