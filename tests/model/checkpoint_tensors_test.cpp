#include "model/checkpoint/tensors.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "model/checkpoint/names.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::model::checkpoint_tensors_test {
namespace {

constexpr std::uint64_t step = 3;

/// The only checkpoint in a folder.
checkpoint only_checkpoint(const std::string& directory) {
  const auto found = newest_whole_checkpoint(directory);
  EXPECT_TRUE(found.has_value()) << found.error().message;
  return found ? found->what : checkpoint{};
}

made_content one_table(saved_table table) {
  made_content content;
  content.tables = {std::move(table)};
  return content;
}

/// Expects that each part, read in every sharding up to `shards_max`, by rows and by columns, has the right contents.
void expect_resharding(const checkpoint& saved, std::uint32_t shards_max) {
  const saved_table& table = saved.manifest.tables.front();
  for (const table_part& part : table.parts) {
    const std::vector<std::byte> whole = made_part(table, 0, part, step);
    const std::uint64_t number = *tensor_bytes(part.type, {1});
    const auto expect_shard = [&](shard_of shard) {
      const std::vector<std::byte> expected = bytes_of_shard(whole, part.columns, number, shard);
      std::vector<std::byte> found(expected.size(), std::byte{0xee});
      const auto read = read_table(saved, 0, part.name, shard, found);
      ASSERT_TRUE(read.has_value()) << read.error().message;
      ASSERT_EQ(found, expected) << table.rows << " rows of " << table.shards << " shards: " << part.name
                                 << " of shard " << shard.index << " of " << shard.count
                                 << (shard.split == table_split::columns ? " by columns" : " by rows");
    };
    for (std::uint32_t shards = 1; shards <= shards_max; ++shards)
      for (std::uint32_t index = 0; index < shards; ++index) {
        expect_shard({index, shards});
        if (shards <= part.columns) expect_shard({index, shards, table_split::columns});
      }
  }
}

TEST(CheckpointTensors, RowsAreDividedAmongShards) {
  EXPECT_EQ(rows_on(10, {0, 3}), 4U);
  EXPECT_EQ(rows_on(10, {1, 3}), 3U);
  EXPECT_EQ(rows_on(10, {2, 3}), 3U);
  EXPECT_EQ(rows_on(2, {2, 3}), 0U);
  EXPECT_EQ(rows_on(0, {0, 1}), 0U);
  EXPECT_EQ(rows_on(std::numeric_limits<std::uint64_t>::max(), {0, 1}), std::numeric_limits<std::uint64_t>::max());
}

TEST(CheckpointTensors, ComeBackInAnySharding) {
  for (const std::uint64_t rows : {0, 1, 2, 3, 7, 60, 61}) {
    for (std::uint32_t shards = 1; shards <= 5; ++shards) {
      const checkpoint_folder folder;
      const made_content content = one_table({rows,
                                              shards,
                                              {{"weight", dtype::bf16, 3},
                                               {"state.0", dtype::f32, 1},
                                               {"state.1", dtype::f64, 2},
                                               {"counts", dtype::u8, 1}}});
      make_checkpoints(folder.path(), {step}, content);
      const checkpoint saved = only_checkpoint(folder.path());
      expect_made(saved, content);
      expect_resharding(saved, 6);
    }
  }
}

TEST(CheckpointTensors, ColumnsComeBackInAnySharding) {
  for (const std::uint64_t rows : {0, 1, 7, 61}) {
    for (std::uint32_t shards = 1; shards <= 5; ++shards) {
      const checkpoint_folder folder;
      const made_content content =
          one_table({rows, shards, {{"weight", dtype::bf16, 5}, {"state.0", dtype::f32, 13}}, table_split::columns});
      make_checkpoints(folder.path(), {step}, content);
      const checkpoint saved = only_checkpoint(folder.path());
      EXPECT_EQ(saved.manifest.tables, content.tables);
      expect_made(saved, content);
      expect_resharding(saved, 6);
    }
  }
}

TEST(CheckpointTensors, ColumnsAreDividedInRunsTheFirstOfWhichAreLonger) {
  const auto run = [](std::uint64_t columns, std::uint32_t shard, std::uint32_t shards) {
    const column_range range = columns_on(columns, {shard, shards, table_split::columns});
    return std::pair(range.first, range.count);
  };
  EXPECT_EQ(run(10, 0, 3), std::pair(std::uint64_t{0}, std::uint64_t{4}));
  EXPECT_EQ(run(10, 1, 3), std::pair(std::uint64_t{4}, std::uint64_t{3}));
  EXPECT_EQ(run(10, 2, 3), std::pair(std::uint64_t{7}, std::uint64_t{3}));
  EXPECT_EQ(run(2, 1, 3), std::pair(std::uint64_t{1}, std::uint64_t{1}));
  EXPECT_EQ(run(2, 2, 3), std::pair(std::uint64_t{2}, std::uint64_t{0}));
  EXPECT_EQ(rows_on(10, {1, 3, table_split::columns}), 10U);
  EXPECT_EQ(columns_on(10, {1, 3}).count, 10U);
}

// At least 12 MiB per part, so that every file is read in several pieces; rows do not divide the pieces evenly.
TEST(CheckpointTensors, LargerThanTheBufferComeBackWhole) {
  const checkpoint_folder folder;
  const made_content content = one_table({250'001, 2, {{"weight", dtype::f32, 13}, {"state.0", dtype::u8, 57}}});
  make_checkpoints(folder.path(), {step}, content);
  expect_resharding(only_checkpoint(folder.path()), 3);
  made_content columns = content;
  columns.tables[0].split = table_split::columns;
  const checkpoint_folder other;
  make_checkpoints(other.path(), {step}, columns);
  expect_resharding(only_checkpoint(other.path()), 2);
}

TEST(CheckpointTensors, ARowLargerThanTheBufferComesBackWhole) {
  const checkpoint_folder folder;
  const made_content content = one_table({3, 2, {{"weight", dtype::f32, 1'500'000}}});
  make_checkpoints(folder.path(), {step}, content);
  expect_resharding(only_checkpoint(folder.path()), 4);
}

TEST(CheckpointTensors, SeveralThreadsWriteIntoOneFolder) {
  const checkpoint_folder folder;
  const made_content content = one_table({1000, 8, {{"weight", dtype::f32, 16}}});
  auto store = checkpoint_store::open(folder.path(), nullptr);
  ASSERT_TRUE(store.has_value());
  const auto files = store->begin(step);
  ASSERT_TRUE(files.has_value());
  std::vector<result<saved_file>> written(8);
  std::vector<std::thread> servers;
  for (std::uint32_t shard = 0; shard < 8; ++shard) {
    servers.emplace_back([&, shard] {
      written[shard] = write_made_shard(*files, content.tables.front(), 0, {shard, 8}, step);
    });
  }
  for (std::thread& one : servers) one.join();
  checkpoint_manifest manifest = made_manifest(step, content);
  for (const auto& file : written) {
    ASSERT_TRUE(file.has_value()) << file.error().message;
    manifest.files.push_back(*file);
  }
  manifest.files.push_back(*write_made_dense(*files, content.dense, step));
  const auto saved = store->commit(std::move(manifest));
  ASSERT_TRUE(saved.has_value()) << saved.error().message;
  expect_made(only_checkpoint(folder.path()), content);
}

TEST(CheckpointTensors, WhatIsNotThereIsRefused) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {step});
  const checkpoint saved = only_checkpoint(folder.path());
  std::vector<std::byte> out(10 * 3 * 4);
  const auto table = [&](std::size_t number, const std::string& part, shard_of shard) {
    const auto read = read_table(saved, number, part, shard, out);
    return read ? std::string() : read.error().message;
  };
  const std::string where = "checkpoint step 3 in " + folder.path() + ": ";
  EXPECT_EQ(table(0, "weight", {0, 1}), "");
  EXPECT_EQ(table(2, "weight", {0, 1}), where + "table 2: it has 2 tables");
  EXPECT_EQ(table(0, "state.1", {0, 1}), where + "table 0: it has no state.1");
  EXPECT_EQ(table(0, "weight", {1, 2}), where + "table 0, weight: 120 bytes wanted of shard 1 of 2, and it has 60");
  EXPECT_EQ(read_dense(saved, "top.1.weight", out).error().message, where + "dense tensor top.1.weight: is not there");
  EXPECT_EQ(read_dense(saved, "top.0.weight", out).error().message,
            where + "dense tensor top.0.weight: 120 bytes wanted, and it has 24");
}

// A valid manifest with the wrong files: nothing is read beyond the files' ends.
TEST(CheckpointTensors, FilesThatAreNotAsTheManifestSaysAreRefused) {
  const checkpoint_folder folder;
  make_checkpoints(folder.path(), {step});
  checkpoint saved = only_checkpoint(folder.path());
  saved.manifest.tables[0].parts[0].columns = 4;
  saved.manifest.dense[0].shape = {6};
  std::vector<std::byte> out(10 * 4 * 4);
  EXPECT_EQ(read_table(saved, 0, "weight", {0, 1}, out).error().message,
            saved.path_of("table-0.shard-0-of-2.safetensors") +
                ": tensor weight F32 [5, 4]: is not there, as the manifest has it");
  EXPECT_EQ(read_dense(saved, "top.0.weight", std::span(out).first(24)).error().message,
            saved.path_of("dense.safetensors") + ": tensor top.0.weight F32 [6]: is not there, as the manifest has it");
}

}  // namespace
}  // namespace troupe::model::checkpoint_tensors_test
