// Modules on parameter servers. A handle can be copied, and passed to every trainer.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "troupe/context.hpp"
#include "troupe/future.hpp"
#include "troupe/layers.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trained.hpp"

namespace troupe {

template <class Module>
class remote_module;

/// A table of rows on a server.
template <>
class remote_module<nn::embedding_bag> {
 public:
  explicit remote_module(std::shared_ptr<const runtime::remote_table> of) : table_(std::move(of)) {}

  /// Looks up bags of rows, pooled: bag b has the rows `indices[offsets[b]]` up to `indices[offsets[b + 1]]`. The
  /// answer is [bags, embedding_dim], as of the trainers' last optimizer step. Fails with `error` on an index out of
  /// range.
  future<tensor> forward(context& in, std::span<const std::int64_t> indices,
                         std::span<const std::int64_t> offsets) const;

  runtime::trained trained() const { return table_; }

 private:
  std::shared_ptr<const runtime::remote_table> table_;
};

}  // namespace troupe
