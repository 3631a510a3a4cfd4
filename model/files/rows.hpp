// Rows of a file in memory, and how they become batches.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/data.hpp"

namespace troupe::model {

/// What a row of a file holds, and which of its parts each table of the model takes.
struct row_layout {
  /// Where a table's rows are: among the single ones, one a sample, or among the bags.
  struct table {
    bool is_bag = false;
    /// Its number among those of its kind.
    std::size_t number = 0;
  };

  std::size_t dense = 0;
  std::size_t singles = 0;
  std::size_t bags = 0;
  /// By table of the model.
  std::vector<table> tables;

  /// 32-bit words of a row's record: the label, the dense features and the single tables' rows.
  std::size_t width() const { return 1 + dense + singles; }
};

/// Most values in all bags of a row: as many as `--bag` allows for a table of synthetic data.
constexpr std::uint64_t bag_values_max = 65536;

/// The bags of several rows, one after the other, row by row.
struct row_bags {
  /// Where each bag begins in `rows`, and where the last one ends.
  std::vector<std::uint64_t> begin{0};
  std::vector<std::uint32_t> rows;
};

/// Neighbouring rows of a file, compact: a table's row takes 4 bytes.
struct row_block {
  std::size_t rows = 0;
  /// [rows, width]: the label's bits, the dense features' bits, the single tables' rows.
  std::vector<std::uint32_t> records;
  /// [rows, layout.bags]
  row_bags bags;
  /// Where each window begins among the rows, and where the last one ends. Rows are shuffled within their window.
  std::vector<std::uint64_t> window_begin;
};

/// Makes a batch, sample by sample.
class batch_builder {
 public:
  /// `loss` decides whether labels are classes or values.
  batch_builder(const row_layout& layout, loss_kind loss, std::size_t size);

  /// Takes row `row` of `from` as the next sample; at most `size` times.
  void add(const row_block& from, std::size_t row);

  /// The batch, once all samples are in.
  batch finish() && { return std::move(made_); }

 private:
  const row_layout& layout_;
  loss_kind loss_;
  batch made_;
  std::vector<std::int64_t*> singles_;  // indices of the single tables, by number
  std::vector<bags*> bags_;             // the others, by number
  std::size_t next_ = 0;
};

}  // namespace troupe::model
