#include "model/checkpoint/export.hpp"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "model/checkpoint/names.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/model/strict_safetensors.hpp"
#include "tests/read_file.hpp"

namespace troupe::model::checkpoint_export_test {
namespace {

constexpr std::uint64_t step = 20;

checkpoint made(const std::string& directory, const made_content& content = {}) {
  make_checkpoints(directory, {step}, content);
  const auto found = newest_whole_checkpoint(directory);
  EXPECT_TRUE(found.has_value()) << found.error().message;
  return found ? found->what : checkpoint{};
}

void expect_bytes(const plain_tensor& found, const std::vector<std::byte>& expected) {
  ASSERT_EQ(found.bytes.size(), expected.size());
  EXPECT_EQ(std::memcmp(found.bytes.data(), expected.data(), expected.size()), 0);
}

TEST(CheckpointExport, IsAPlainFileOfWholeTablesAndNamedLayers) {
  const checkpoint_folder folder;
  const checkpoint saved = made(folder / "a");
  const auto written = export_checkpoint(saved, folder / "model.safetensors", {});
  ASSERT_TRUE(written.has_value()) << written.error().message;
  const std::string content = read_file(folder / "model.safetensors");
  EXPECT_EQ(written->length, content.size());
  const plain_file read = read_strictly(content);
  EXPECT_EQ(read.metadata, (std::map<std::string, std::string>{{"step", "20"},
                                                               {"job.data", "synthetic"},
                                                               {"job.seed", "7"},
                                                               {"job.servers", "2"},
                                                               {"job.dense-lr", "0.05"}}));
  const made_content content_made;
  std::size_t tensors = 0;
  for (std::size_t number = 0; number < content_made.tables.size(); ++number) {
    const saved_table& table = content_made.tables[number];
    for (const table_part& part : table.parts) {
      const plain_tensor& found = read.tensors.at(fmt::format("table.{}.{}", number, part.name));
      EXPECT_EQ(found.type, name_in_file(part.type));
      EXPECT_EQ(found.shape, (std::vector<std::uint64_t>{table.rows, part.columns}));
      expect_bytes(found, made_part(table, number, part, step));
      ++tensors;
    }
  }
  for (const tensor_declaration& one : content_made.dense) {
    const plain_tensor& found = read.tensors.at(one.name);
    EXPECT_EQ(found.shape, one.shape);
    expect_bytes(found, made_bytes(one.name, step, *tensor_bytes(one.type, one.shape)));
    ++tensors;
  }
  EXPECT_EQ(read.tensors.size(), tensors);
  EXPECT_EQ(entries_of(folder.path()), (std::vector<std::string>{"a", "model.safetensors"}));
}

TEST(CheckpointExport, DoesNotDependOnTheSharding) {
  std::string first;
  for (const table_split split : {table_split::rows, table_split::columns})
    for (std::uint32_t shards = 1; shards <= 5; ++shards) {
      const checkpoint_folder folder;
      made_content content;
      content.tables = {{3, shards, {{"weight", dtype::f32, 5}}, split},
                        {61, shards, {{"weight", dtype::f16, 7}, {"state.0", dtype::f32, 7}}, split},
                        {61, shards, {{"weight", dtype::f32, 3}, {"state.0", dtype::f32, 1}}},
                        {0, shards, {{"weight", dtype::f32, 5}}, split}};
      ASSERT_TRUE(export_checkpoint(made(folder / "a", content), folder / "file", {}).has_value());
      const std::string bytes = read_file(folder / "file");
      if (first.empty()) first = bytes;
      EXPECT_EQ(bytes, first) << shards << (split == table_split::rows ? " by rows" : " by columns");
    }
}

// Tables of 30 MiB are written in several pieces; their rows do not divide the pieces evenly.
TEST(CheckpointExport, IsWrittenInPieces) {
  for (const auto& [shards, split] :
       {std::pair{1U, table_split::rows}, {3U, table_split::rows}, {3U, table_split::columns}}) {
    const checkpoint_folder folder;
    made_content content;
    content.tables = {{600'011, shards, {{"weight", dtype::f32, 13}}, split}};
    const checkpoint saved = made(folder / "a", content);
    ASSERT_TRUE(export_checkpoint(saved, folder / "file", {}).has_value());
    const plain_file read = read_strictly(read_file(folder / "file"));
    expect_bytes(read.tensors.at("table.0.weight"), made_part(content.tables[0], 0, content.tables[0].parts[0], step));
  }
}

TEST(CheckpointExport, OfTheWeightsAloneHasNoOptimizerState) {
  const checkpoint_folder folder;
  export_options options;
  options.weights_only = true;
  ASSERT_TRUE(export_checkpoint(made(folder / "a"), folder / "file", options).has_value());
  std::vector<std::string> names;
  for (const auto& [name, tensor] : read_strictly(read_file(folder / "file")).tensors) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"table.0.weight", "table.1.weight", "top.0.bias", "top.0.weight"}));
}

TEST(CheckpointExport, OfTheWeightsAloneHasNothingElseOfAProgram) {
  const checkpoint_folder folder;
  made_content content;
  content.dense = {{"replica0.weight", dtype::f32, {2, 2}}, {"replica0.weight.state.0", dtype::f32, {2, 2}},
                   {"rank1.own.weight", dtype::f32, {2}},   {"rank0.loops", dtype::i64, {3}},
                   {"rank1.contexts", dtype::i64, {1}},     {"rank0.kept.losses.sum", dtype::f64, {1}}};
  const checkpoint saved = made(folder / "a", content);
  const auto names_of = [&](export_options options) {
    options.overwrite = true;
    EXPECT_TRUE(export_checkpoint(saved, folder / "file", options).has_value());
    std::vector<std::string> names;
    for (const auto& [name, tensor] : read_strictly(read_file(folder / "file")).tensors)
      if (!name.starts_with("table.")) names.push_back(name);
    return names;
  };
  EXPECT_EQ(names_of({}).size(), content.dense.size());
  EXPECT_EQ(names_of({.weights_only = true}), (std::vector<std::string>{"rank1.own.weight", "replica0.weight"}));
}

// -- memory -------------------------------------------------------------------

// The sanitizers keep freed memory.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/// The bytes of a line of /proc/self/status.
std::uint64_t memory_of(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word) {
    if (word == name) status >> kib;
  }
  return kib * 1024;
}

/// Returns whether `work` succeeds and never uses `bytes` more memory than before.
template <class Work>
bool works_within(std::uint64_t bytes, Work work) {
  ::malloc_trim(0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t before = memory_of("VmRSS:");
    const bool done = work();
    ::_exit(done && memory_of("VmHWM:") < before + bytes ? 0 : 1);
  }
  int status = 1;
  return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(CheckpointExport, NeitherSavingNorExportingTakesMemoryForATable) {
  constexpr std::uint64_t most = std::uint64_t{40} << 20;
  const checkpoint_folder folder;
  made_content content;
  content.tables = {{2'000'000, 2, {{"weight", dtype::f32, 16}}}};
  auto store = checkpoint_store::open(folder / "a", nullptr);
  ASSERT_TRUE(store.has_value());
  const auto files = store->begin(step);
  ASSERT_TRUE(files.has_value());
  checkpoint_manifest manifest = made_manifest(step, content);
  {
    const std::vector<std::byte> rows(std::size_t{1'000'000} * 16 * sizeof(float), std::byte{0x3f});
    const std::vector<tensor_view> parts(1, {{"weight", dtype::f32, {1'000'000, 16}}, rows});
    const auto write = [&](std::uint32_t shard) { return write_table(*files, 0, {shard, 2}, parts); };
    EXPECT_TRUE(works_within(most, [&] { return write(0).has_value(); }));
    for (const std::uint32_t shard : {0U, 1U}) manifest.files.push_back(*write(shard));
  }
  manifest.files.push_back(*write_made_dense(*files, content.dense, step));
  ASSERT_TRUE(store->commit(std::move(manifest)).has_value());

  const auto found = newest_whole_checkpoint(folder / "a");
  ASSERT_TRUE(found.has_value()) << found.error().message;
  EXPECT_TRUE(works_within(most, [&] { return newest_whole_checkpoint(folder / "a").has_value(); }));
  EXPECT_TRUE(works_within(most, [&] { return export_checkpoint(found->what, folder / "file", {}).has_value(); }));
  EXPECT_GT(std::filesystem::file_size(folder / "file"), 3 * most);
  // Checks that excess is noticed. The kernel counts resident pages to some hundred KiB per core, so the excess is
  // large.
  EXPECT_FALSE(works_within(most, [] { return std::vector<char>(2 * most, 'x').back() == 'x'; }));
}

#endif

// -- the output file -------------------------------------------------------------------------------------------------

TEST(CheckpointExport, ReplacesAFileOnlyIfToldTo) {
  const checkpoint_folder folder;
  const checkpoint saved = made(folder / "a");
  set_content(folder / "file", "mine");
  std::filesystem::create_symlink("file", folder / "link");
  for (const std::string& path : {folder / "file", folder / "link"}) {
    const auto refused = export_checkpoint(saved, path, {});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().kind, fault_kind::input);
    EXPECT_EQ(refused.error().message, path + ": is there already; replace it by --force, or name another file");
    EXPECT_EQ(read_file(folder / "file"), "mine");
  }
  export_options options;
  options.overwrite = true;
  ASSERT_TRUE(export_checkpoint(saved, folder / "link", options).has_value());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_strictly(read_file(folder / "file")).metadata.at("step"), "20");
  EXPECT_EQ(entries_of(folder.path()), (std::vector<std::string>{"a", "file", "link"}));
}

TEST(CheckpointExport, RefusesWhatCannotBeAFile) {
  const checkpoint_folder folder;
  const checkpoint saved = made(folder / "a");
  const auto message = [&](const std::string& path) {
    export_options options;
    options.overwrite = true;
    const auto refused = export_checkpoint(saved, path, options);
    EXPECT_FALSE(refused.has_value());
    if (refused) return std::string();
    EXPECT_EQ(refused.error().kind, fault_kind::input);
    return refused.error().message;
  };
  EXPECT_EQ(message(folder / "none/file"), folder / "none/file" + ": there is no folder " + folder / "none");
  EXPECT_EQ(message(folder.path()), folder.path() + ": is there and not a regular file; name another file");
  EXPECT_EQ(message("/dev/null"), "/dev/null: is there and not a regular file; name another file");
  EXPECT_EQ(message(folder / "new/"), folder / "new/" + ": is not the name of a file");
  EXPECT_EQ(message(""), "'': is not the name of a file");
  const std::string own = ": is what a checkpoint's own file is called; name another file";
  const std::string manifest = folder / "a/" + manifest_name(saved.manifest.step);
  EXPECT_EQ(message(manifest), manifest + own);
  EXPECT_EQ(message(folder / "a/step-000000000099.json"), folder / "a/step-000000000099.json" + own);
  for (const saved_file& file : saved.manifest.files) {
    const std::string path = folder / "a/" + saved.manifest.folder + "/" + file.name;
    EXPECT_EQ(message(path), path + own);
  }
  EXPECT_TRUE(newest_whole_checkpoint(folder / "a").has_value()) << "nothing was overwritten";
}

TEST(CheckpointExport, OfARunThatBeginsIsRefused) {
  const checkpoint_folder folder;
  auto store = checkpoint_store::open(folder / "a", nullptr);
  ASSERT_TRUE(store.has_value());
  ASSERT_TRUE(store->begin(0).has_value());
  ASSERT_TRUE(store->commit({}).has_value());
  const auto beginning = newest_whole_checkpoint(folder / "a");
  ASSERT_TRUE(beginning.has_value());
  EXPECT_EQ(export_checkpoint(beginning->what, folder / "file", {}).error().message,
            "checkpoint step 0 in " + folder / "a" + " marks the beginning of a run: there are no tensors in it");
}

TEST(CheckpointExport, LeavesAFileWhereItWouldWriteFirst) {
  const checkpoint_folder folder;
  const checkpoint saved = made(folder / "a", {});
  set_content(folder / "file.part", "mine");
  const std::string part = folder / "file.part";
  EXPECT_EQ(export_checkpoint(saved, folder / "file", {}).error().message,
            part + ": is there, and the export is first written to it; replace it by --force, or remove it");
  EXPECT_EQ(read_file(part), "mine");
  export_options options;
  options.overwrite = true;
  EXPECT_TRUE(export_checkpoint(saved, folder / "file", options).has_value());
  EXPECT_EQ(entries_of(folder.path()), (std::vector<std::string>{"a", "file"}));
}

TEST(CheckpointExport, OnAFullDiskLeavesWhatWasThere) {
  const checkpoint_folder folder;
  made_content content;
  content.tables.front().rows = 200'000;
  const checkpoint saved = made(folder / "a", content);
  set_content(folder / "file", "mine");
  export_options options;
  options.overwrite = true;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100'000;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto done = export_checkpoint(saved, folder / "file", options);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().kind, fault_kind::run);
  EXPECT_EQ(done.error().message.find(folder / "file.part" + ": File too large after "), 0U) << done.error().message;
  EXPECT_EQ(read_file(folder / "file"), "mine");
  EXPECT_EQ(entries_of(folder.path()), (std::vector<std::string>{"a", "file"}));
}

}  // namespace
}  // namespace troupe::model::checkpoint_export_test
