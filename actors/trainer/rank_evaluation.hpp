// A rank's evaluation: its share of the test rows, chunk by chunk, from the rows to the reported sums. It sends
// nothing: the loop (`training_loop`) looks the rows up, and the step's body (`step_body`) passes them through the
// network.
//
//   begin ──▶ take_next ──▶ looked up, passed forward ──▶ score ──▶ take_next ──▶ ... ──▶ report

#pragma once

#include <caf/expected.hpp>
#include <cstdint>
#include <functional>
#include <optional>

#include "actors/trainer/network_input.hpp"
#include "actors/trainer/sparse_client.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "model/metric_sums.hpp"
#include "model/metrics.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The most test rows that a rank scores at once.
inline constexpr std::uint64_t test_rows_at_once = 1024;

/// Assigns test rows to a rank. The ranks score chunks in turn, so that they read a file together.
class test_share {
 public:
  struct chunk {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };

  test_share() = default;
  /// The share of `rank` among `ranks`, of `rows` test rows.
  test_share(std::uint32_t rank, std::uint32_t ranks, std::uint64_t rows) : rank_(rank), ranks_(ranks), rows_(rows) {}

  /// Starts over.
  void begin() { next_ = rank_ * test_rows_at_once; }
  /// Returns the rows to score next; none when this rank has scored all of its rows.
  std::optional<chunk> next();

 private:
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
  std::uint64_t rows_ = 0;
  std::uint64_t next_ = 0;
};

/// Belongs to the trainer's actor.
class rank_evaluation {
 public:
  using context = sparse_client::context;
  /// Checks rows, and plans their lookups.
  using preparation = std::function<caf::expected<context>(result<model::batch>&& rows)>;

  rank_evaluation() = default;
  /// The evaluations of `rank` among the job's trainers. Requires: `what` and `data` outlive this object.
  rank_evaluation(std::uint32_t rank, const model::job& what, const model::dataset& data);

  /// Starts over, with sums of 0.
  void begin();
  /// Reads this rank's next rows, which become the current ones. Returns false when all have been scored. Fails if they
  /// cannot be read or prepared.
  caf::expected<bool> take_next(const preparation& prepare);

  /// The current rows, which keep their address while they are looked up, and the network's input for them.
  context& rows() { return rows_; }
  const context& rows() const { return rows_; }
  network_input& input() { return input_; }
  const model::batch& samples() const { return *rows_.samples; }

  /// Scores the current rows; `outputs` [samples, outputs] are the network's outputs for them.
  void score(const float* outputs);
  /// Returns the sums since `begin`, without header, rank and epoch.
  msg::evaluation report();

 private:
  const model::job* job_ = nullptr;
  const model::dataset* data_ = nullptr;
  test_share share_;
  context rows_;
  network_input input_;
  model::predictions counts_;
  model::metric_sums own_;
};

}  // namespace troupe::actors
