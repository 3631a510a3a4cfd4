// A run's final weights: their digest, and the weights themselves if requested.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/master/membership.hpp"
#include "actors/master/open_requests.hpp"
#include "actors/master/run_plan.hpp"
#include "base/digest.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// Merges the shards' rows and columns, in order of shard number and of any `row_dtype`, into [rows, dim] in float32.
msg::tensor merge_shards(const std::vector<msg::tensor>& shards, std::uint64_t rows, std::uint64_t dim,
                         model::table_split split = model::table_split::rows);

/// The digest of all weights: XXH3 of the digests of every table's rows in row order (8 bytes each, XXH3 of the row's
/// bits), table by table, and of the digest of the dense weights' bits.
///
/// The rows' digests are requested in pieces, from many shards at a time, and may arrive in any order;
/// they are never all in memory. For a table split by columns, the rows themselves are requested and digested here.
/// Belongs to one actor.
class weights_digest {
 public:
  /// The most rows whose digests are pending, or have arrived before those of earlier rows. Rows that are requested
  /// themselves count by their bytes.
  static constexpr std::uint64_t rows_max = std::uint64_t{1} << 21;
  static constexpr std::uint64_t bytes_max = rows_max * sizeof(std::uint64_t);

  struct table {
    std::uint64_t rows = 0;
    std::uint32_t shards = 1;
    std::uint64_t columns = 0;  ///< of a table split by columns; 0: it is split by rows

    /// Returns the number of shards that divide the rows.
    std::uint32_t shards_of_rows() const { return columns > 0 ? 1 : shards; }
  };

  /// Rows [first, first + rows) of a shard, by their local numbers.
  struct piece {
    std::size_t table = 0;
    std::uint32_t shard = 0;
    std::uint64_t first = 0;
    std::uint64_t rows = 0;
    std::uint64_t round = 0;  ///< the round of `weights_digest` that it belongs to
  };

  weights_digest() = default;
  explicit weights_digest(std::vector<table> tables) : tables_(std::move(tables)) {}

  /// Returns the next piece to request, of at most `row_digests_max` rows; nullopt if `rows_max` would be exceeded or
  /// no rows are left.
  std::optional<piece> next();

  /// Adds the digests of a piece from `next`, or its rows. Returns false and changes nothing if their number or type is
  /// wrong.
  bool add(const piece& part, msg::tensor digests);

  /// Returns the digest as 16 hexadecimal digits. Requires: all pieces have been added. May be called once.
  std::string text(std::uint64_t dense_digest);

 private:
  /// The pieces of a range of a table's rows, one for each shard.
  struct round {
    std::vector<msg::tensor> shards;
    std::size_t missing = 0;
    std::uint64_t rows = 0;
    std::size_t table = 0;
  };

  bool open_round();
  bool answers(const piece& part, const msg::tensor& digests) const;
  void digest(const round& whole);
  /// Returns the bytes requested for a row.
  static std::uint64_t bytes_of_row(const table& of) {
    return of.columns > 0 ? of.columns * sizeof(float) : sizeof(std::uint64_t);
  }
  void take(std::uint64_t part) { digest_.add(std::as_bytes(std::span(&part, 1))); }

  std::vector<table> tables_;
  running_digest digest_;
  std::deque<round> rounds_;  // opened and not digested yet, in row order
  std::uint64_t rounds_digested_ = 0;
  std::uint64_t bytes_under_way_ = 0;
  std::deque<piece> to_ask_;    // pieces of the last round
  std::size_t next_table_ = 0;  // the next round's table
  std::uint64_t next_row_ = 0;  // its first local row in every shard
};

/// Belongs to the master.
class final_weights {
 public:
  final_weights(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// Rank `rank` has finished, with these dense weights.
  void add(std::uint32_t rank, msg::trained&& result);
  /// The step after which the trainers have finished.
  std::uint64_t step() const { return trained_.front().steps; }
  /// Returns an error that names the step if the trainers finished with different weights.
  caf::error check() const;
  /// Calls `then` when the servers have applied all gradients that the trainers have sent.
  void settle(const run_plan& plan, const table_shards& tables, const std::function<void()>& then);
  /// Requests digests and weights from the servers, and calls `then` when all have answered. Requires: the arguments
  /// outlive this object.
  void collect(const run_plan& plan, const table_shards& tables, std::function<void()> then);

  /// The idle share of the stages' time; none: there are no stages, or no step was taken.
  std::optional<double> bubble() const;
  /// Fills in steps, digest, bubble, and the weights if requested. May be called once, at the end.
  void fill(msg::run_result& result);

 private:
  void ask_for_digests();
  std::uint64_t step_of(const msg::module_ref& shard) const;

  open_requests& requests_;
  actor_trace& trace_;
  const run_plan* plan_ = nullptr;
  const table_shards* tables_ = nullptr;
  std::function<void()> then_;
  std::vector<msg::trained> trained_;             // by rank
  std::vector<std::vector<msg::tensor>> shards_;  // by table, then shard; if requested
  weights_digest digest_;
};

}  // namespace troupe::actors
