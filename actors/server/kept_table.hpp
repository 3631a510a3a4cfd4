// A snapshot of (a shard of) a table, for a checkpoint that is written while the table keeps changing.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/server/remote_module.hpp"
#include "kernels/device.hpp"
#include "model/kept_rows.hpp"

namespace troupe::actors {

/// One array of a table in its device's memory: rows of `columns` numbers, without gaps.
struct table_array {
  std::string name;  ///< its name in checkpoints
  dtype type;
  std::size_t columns;
  std::span<std::byte> bytes;
};

/// Thread: the server's, except for `write`.
class kept_table {
 public:
  /// Keeps weights and optimizer state. On the host, rows are copied when they are about to change;
  /// from a device, all are copied now if there is memory. Requires: the arrays stay in place until `drop` or
  /// destruction.
  kept_table(std::size_t table, model::shard_of shard, std::vector<table_array> arrays, kernels::stream& on,
             std::shared_ptr<model::memory_allowance> memory);
  ~kept_table();
  kept_table(const kept_table&) = delete;
  kept_table& operator=(const kept_table&) = delete;

  /// Called before these rows, or all of them, change. Returns false if they must not change yet, for lack of memory
  /// for a copy.
  bool let_change(std::span<const std::int64_t> rows);
  bool let_all_change();

  /// Releases the snapshot: the table may change and be destroyed, and `write` fails from now on.
  void drop();

  /// Returns whether `write` must run on the server's thread, since the table is on a device and not copied.
  bool is_written_here() const { return on_ != nullptr; }

  /// Set when this object is gone, and with it the last use of the arrays. Thread: any.
  std::shared_ptr<const std::atomic<bool>> has_gone() const { return has_gone_; }

  /// Writes the table's file. Thread: any, once.
  caf::expected<remote_module::saved> write(const std::string& folder);

 private:
  model::tensor_view view_of(std::size_t array, std::vector<std::byte>& piece);

  const std::size_t table_;
  const model::shard_of shard_;
  std::vector<table_array> arrays_;
  std::vector<std::unique_ptr<model::kept_rows>> rows_;  ///< by array, on the host
  std::vector<std::shared_ptr<std::byte>> copies_;       ///< by array, from a device
  kernels::stream* on_ = nullptr;                        ///< the stream for arrays that are not copied
  std::shared_ptr<model::memory_allowance> memory_;
  std::uint64_t copied_ = 0;  ///< bytes
  std::shared_ptr<std::atomic<bool>> has_gone_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace troupe::actors
