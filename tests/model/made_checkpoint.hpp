// Makes checkpoints without a run, for tests of their readers.

#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "model/checkpoint/store.hpp"
#include "model/checkpoint/tensors.hpp"

namespace troupe::model {

/// A temporary folder, removed with this object.
class checkpoint_folder {
 public:
  checkpoint_folder() : path_(testing::TempDir() + "troupe-checkpoint-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": cannot be made");
  }
  checkpoint_folder(const checkpoint_folder&) = delete;
  checkpoint_folder& operator=(const checkpoint_folder&) = delete;
  ~checkpoint_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void set_content(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc).write(content.data(), std::ssize(content));
}

/// The names in a folder, sorted.
inline std::vector<std::string> entries_of(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// The contents of a made checkpoint. Every byte of a tensor follows from its name, the step and its offset.
struct made_content {
  std::vector<saved_table> tables = {
      {10, 2, {{"weight", dtype::f32, 3}, {"state.0", dtype::f32, 1}}},
      {3, 1, {{"weight", dtype::bf16, 5}, {"state.0", dtype::f32, 5}, {"state.1", dtype::f32, 5}}},
  };
  std::vector<tensor_declaration> dense = {
      {"top.0.weight", dtype::f32, {2, 3}},
      {"top.0.bias", dtype::f32, {2}},
      {"top.0.weight.state.0", dtype::f32, {2, 3}},
      {"top.0.bias.state.0", dtype::f32, {2}},
  };
};

/// `length` bytes that depend on `name` and `step`, cheap to compute and without a period.
inline std::vector<std::byte> made_bytes(const std::string& name, std::uint64_t step, std::uint64_t length) {
  std::uint64_t state = step;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::vector<std::byte> bytes(length);
  for (std::byte& one : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    one = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

/// All rows of a part of a table, in row order.
inline std::vector<std::byte> made_part(const saved_table& table, std::size_t number, const table_part& part,
                                        std::uint64_t step) {
  return made_bytes(fmt::format("{}.{}", number, part.name), step,
                    *tensor_bytes(part.type, {table.rows, part.columns}));
}

/// Returns the shard of each column of a row: contiguous ranges, as even as possible, the longer ones first.
inline std::vector<std::uint32_t> shards_of_columns(std::uint64_t columns, std::uint32_t shards) {
  std::vector<std::uint32_t> dealt(columns);
  for (std::uint64_t column = 0; column < columns; ++column)
    dealt[column] = static_cast<std::uint32_t>(column % shards);
  std::ranges::sort(dealt);
  return dealt;
}

/// The bytes of `whole` on `shard`, selected one number at a time; rows have `columns` numbers of `number` bytes.
inline std::vector<std::byte> bytes_of_shard(const std::vector<std::byte>& whole, std::uint64_t columns,
                                             std::uint64_t number, shard_of shard) {
  const bool by_rows = shard.split == table_split::rows;
  const auto dealt = shards_of_columns(columns, shard.count);
  std::vector<std::byte> mine;
  for (std::uint64_t at = 0; at * number < whole.size(); ++at) {
    if ((by_rows ? at / columns % shard.count : dealt[at % columns]) != shard.index) continue;
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(at * number);
    mine.insert(mine.end(), begin, begin + static_cast<std::ptrdiff_t>(number));
  }
  return mine;
}

inline result<saved_file> write_made_shard(const std::string& folder, const saved_table& table, std::size_t number,
                                           shard_of shard, std::uint64_t step) {
  std::vector<std::vector<std::byte>> bytes;
  for (const table_part& part : table.parts) {
    bytes.push_back(
        bytes_of_shard(made_part(table, number, part, step), part.columns, *tensor_bytes(part.type, {1}), shard));
  }
  std::vector<tensor_view> views;
  for (const tensor_declaration& what : tensors_of(table, shard)) views.push_back({what, bytes[views.size()]});
  return write_table(folder, number, shard, views);
}

inline result<saved_file> write_made_dense(const std::string& folder, const std::vector<tensor_declaration>& dense,
                                           std::uint64_t step) {
  std::vector<std::vector<std::byte>> bytes;
  for (const tensor_declaration& one : dense) {
    bytes.push_back(made_bytes(one.name, step, *tensor_bytes(one.type, one.shape)));
  }
  std::vector<tensor_view> views;
  for (const tensor_declaration& one : dense) views.push_back({one, bytes[views.size()]});
  return write_dense(folder, views);
}

/// The manifest of a made checkpoint, without files and folder.
inline checkpoint_manifest made_manifest(std::uint64_t step, const made_content& content = {}) {
  checkpoint_manifest manifest;
  manifest.step = step;
  manifest.settings = {{"data", "synthetic"}, {"seed", "7"}, {"servers", "2"}, {"dense-lr", "0.05"}};
  manifest.position.samples = step * 512;
  manifest.position.seconds = 0.1 * static_cast<double>(step);
  manifest.position.ranks = {{1.0 / 3, 256}, {0.1, 255}};
  manifest.tables = content.tables;
  manifest.dense = content.dense;
  return manifest;
}

/// Saves a checkpoint like a run; returns the first fault, if any.
inline result<void> save_made(checkpoint_store& store, std::uint64_t step, const made_content& content = {}) {
  const auto folder = store.begin(step);
  if (!folder) return tl::unexpected(folder.error());
  checkpoint_manifest manifest = made_manifest(step, content);
  const auto add = [&manifest](result<saved_file> file) -> result<void> {
    if (!file) return tl::unexpected(file.error());
    manifest.files.push_back(*file);
    return {};
  };
  for (std::size_t table = 0; table < content.tables.size(); ++table) {
    for (shard_of shard = content.tables[table].shard(0); shard.index < shard.count; ++shard.index) {
      auto done = add(write_made_shard(*folder, content.tables[table], table, shard, step));
      if (!done) return done;
    }
  }
  if (auto done = add(write_made_dense(*folder, content.dense, step)); !done) return done;
  return store.commit(std::move(manifest));
}

/// Makes a folder with checkpoints of these steps; the last two remain.
inline void make_checkpoints(const std::string& directory, const std::vector<std::uint64_t>& steps,
                             const made_content& content = {}) {
  auto store = checkpoint_store::open(directory, nullptr);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  for (const std::uint64_t step : steps) {
    const auto saved = save_made(*store, step, content);
    ASSERT_TRUE(saved.has_value()) << saved.error().message;
  }
}

/// Expects that every tensor of a checkpoint has the contents made for its step.
inline void expect_made(const checkpoint& saved, const made_content& content = {}) {
  const std::uint64_t step = saved.manifest.step;
  for (std::size_t number = 0; number < content.tables.size(); ++number) {
    const saved_table& table = content.tables[number];
    for (const table_part& part : table.parts) {
      const std::vector<std::byte> expected = made_part(table, number, part, step);
      std::vector<std::byte> found(expected.size());
      const auto read = read_table(saved, number, part.name, {0, 1}, found);
      ASSERT_TRUE(read.has_value()) << read.error().message;
      EXPECT_EQ(found, expected) << "table " << number << ", " << part.name;
    }
  }
  for (const tensor_declaration& one : content.dense) {
    const std::vector<std::byte> expected = made_bytes(one.name, step, *tensor_bytes(one.type, one.shape));
    std::vector<std::byte> found(expected.size());
    const auto read = read_dense(saved, one.name, found);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(found, expected) << one.name;
  }
}

}  // namespace troupe::model
