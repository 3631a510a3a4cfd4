// A table of rows on servers, as handles know it, and a lookup of it in a tape.

#pragma once

#include <memory>
#include <vector>

#include "actors/sparse_client.hpp"
#include "troupe/future.hpp"
#include "troupe/runtime/reference.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

/// Does not change: shared by all trainers of a process, each of which has its own references to the servers.
class remote_table {
 public:
  /// Throws `error` if it refers to no table.
  explicit remote_table(reference_ptr of);

  const reference_ptr& reference() const { return reference_; }
  const model::data_spec& spec() const { return spec_; }
  /// Throws `error` if it has no such rows, or if the offsets are none.
  void check_lookup(const char* method, const model::bags& wanted) const;
  std::size_t dim() const { return spec_.tables.front().dim; }
  /// The type of rows in messages.
  dtype wire() const { return wire_; }
  /// How it is cut into shards, if it has several.
  model::table_split split() const { return split_; }

 private:
  reference_ptr reference_;
  model::data_spec spec_;  ///< of one table
  dtype wire_ = dtype::f32;
  model::table_split split_ = model::table_split::rows;
};

/// A trainer's lookups of one table: what they ask, and the memory of those that are over.
struct table_client {
  table_client() { spent->reserve(4); }

  actors::sparse_client client;
  /// At most its capacity. Lookups outlive this object where a context outlives the run.
  std::shared_ptr<std::vector<actors::sparse_client::context>> spent =
      std::make_shared<std::vector<actors::sparse_client::context>>();

  /// Plans a lookup.
  actors::sparse_client::context prepare(std::shared_ptr<const model::batch> samples) const;
};

/// Returns the pooled rows [bags, dim] of a batch of one table. Requires: its answers have come.
caf::expected<tensor> pooled_rows(const actors::sparse_client& by, actors::sparse_client::context& of, std::size_t dim);

/// Bags looked up; their gradient goes to the servers with the optimizer's step.
class lookup final : public node {
 public:
  /// Requires: `by` outlives what this object is asked.
  lookup(std::shared_ptr<const remote_table> of, const table_client& by, std::shared_ptr<const model::batch> samples)
      : table_(std::move(of)), client_(by.client), spent_(by.spent), asked_(by.prepare(std::move(samples))) {}
  lookup(const lookup&) = delete;
  lookup& operator=(const lookup&) = delete;
  ~lookup() override;

  void backward(tape& /*on*/) override {}  // its gradient waits for the optimizer
  bool keeps_gradient() const override { return true; }
  const void* belongs_to() const override { return table_.get(); }

  std::string spoilt() const override;
  const remote_table& table() const { return *table_; }
  const actors::sparse_client& client() const { return client_; }
  actors::sparse_client::context& asked() { return asked_; }
  /// The rows, pooled.
  const promise<tensor>& answer() const { return answer_; }
  /// The gradients for each server of the client; empty without a gradient.
  std::vector<std::vector<msg::bag_gradient>> gradients() const;

 private:
  std::shared_ptr<const remote_table> table_;
  const actors::sparse_client& client_;
  std::shared_ptr<std::vector<actors::sparse_client::context>> spent_;
  actors::sparse_client::context asked_;
  promise<tensor> answer_;
};

}  // namespace troupe::runtime
