// A table of rows on servers, as its handles use it, and a lookup in a tape.

#pragma once

#include <memory>
#include <vector>

#include "actors/trainer/sparse_client.hpp"
#include "troupe/future.hpp"
#include "troupe/runtime/reference.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

/// Immutable: shared by all trainers of a process, each of which has its own references to the servers.
class remote_table {
 public:
  /// Throws `error` if it does not refer to a table.
  explicit remote_table(reference_ptr of);

  const reference_ptr& reference() const { return reference_; }
  const model::data_spec& spec() const { return spec_; }
  /// Throws `error` if a row does not exist, or the offsets are invalid.
  void check_lookup(const char* method, const model::bags& wanted) const;
  std::size_t dim() const { return spec_.tables.front().dim; }
  /// The number type of rows in messages.
  dtype wire() const { return wire_; }
  /// How it is cut into shards, if there are several.
  model::table_split split() const { return split_; }

 private:
  reference_ptr reference_;
  model::data_spec spec_;  ///< of one table
  dtype wire_ = dtype::f32;
  model::table_split split_ = model::table_split::rows;
};

/// A trainer's lookups of one table: plans them, and keeps the memory of finished ones.
struct table_client {
  table_client() { spent->reserve(4); }

  actors::sparse_client client;
  /// Never filled beyond its capacity. Shared, as lookups outlive this object if a context outlives the run.
  std::shared_ptr<std::vector<actors::sparse_client::context>> spent =
      std::make_shared<std::vector<actors::sparse_client::context>>();

  /// Plans a lookup.
  actors::sparse_client::context prepare(std::shared_ptr<const model::batch> samples) const;
};

/// Returns the pooled rows [bags, dim] of a batch of one table. Requires: all answers have arrived.
caf::expected<tensor> pooled_rows(const actors::sparse_client& by, actors::sparse_client::context& of, std::size_t dim);

/// A lookup of bags; their gradient is sent to the servers in the optimizer's step.
class lookup final : public node {
 public:
  /// Requires: `by` outlives all calls of this object.
  lookup(std::shared_ptr<const remote_table> of, const table_client& by, std::shared_ptr<const model::batch> samples)
      : table_(std::move(of)), client_(by.client), spent_(by.spent), asked_(by.prepare(std::move(samples))) {}
  lookup(const lookup&) = delete;
  lookup& operator=(const lookup&) = delete;
  ~lookup() override;

  void backward(tape& /*on*/) override {}  // the optimizer's step sends its gradient
  bool keeps_gradient() const override { return true; }
  const void* belongs_to() const override { return table_.get(); }

  std::string spoilt() const override;
  const remote_table& table() const { return *table_; }
  const actors::sparse_client& client() const { return client_; }
  actors::sparse_client::context& asked() { return asked_; }
  /// Promises the pooled rows.
  const promise<tensor>& answer() const { return answer_; }
  /// Returns the gradients for each server of the client; empty without a gradient.
  std::vector<std::vector<msg::bag_gradient>> gradients() const;

 private:
  std::shared_ptr<const remote_table> table_;
  const actors::sparse_client& client_;
  std::shared_ptr<std::vector<actors::sparse_client::context>> spent_;
  actors::sparse_client::context asked_;
  promise<tensor> answer_;
};

}  // namespace troupe::runtime
