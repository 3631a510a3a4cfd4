#include "model/checkpoint/manifest.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <limits>

#include "base/digest.hpp"
#include "base/text.hpp"
#include "model/arithmetic.hpp"
#include "model/checkpoint/names.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::model::checkpoint_manifest_test {
namespace {

/// A sound manifest with values of every kind.
checkpoint_manifest whole_manifest() {
  checkpoint_manifest manifest = made_manifest(40);
  manifest.folder = "step-000000000040-1a2b3c4d";
  for (const std::string& name : file_names(manifest)) {
    manifest.files.push_back({name, 1000 + manifest.files.size(), std::string(32, 'a')});
  }
  manifest.position.last_epoch = epoch_figures{0.1, 0.9, std::nullopt, 0.5, 1.01, 0.5, 0.25};
  return manifest;
}

/// Corrects the digest of `text` after a change.
std::string signed_again(std::string text) {
  const std::size_t body = text.size() - 36;
  running_digest digest;
  digest.add(std::as_bytes(std::span(text).first(body)));
  return text.substr(0, body) + digest.hex() + "\"\n}\n";
}

/// The error for `text` with `from` replaced by `to` and a correct digest.
std::string refusal(const std::string& text, const std::string& from, const std::string& to) {
  std::string changed = text;
  const std::size_t at = changed.find(from);
  if (at == std::string::npos) {
    ADD_FAILURE() << from << " is not in\n" << text;
    return "";
  }
  changed.replace(at, from.size(), to);
  const auto parsed = parse_manifest(signed_again(changed));
  EXPECT_FALSE(parsed.has_value()) << changed;
  return parsed ? "" : parsed.error().message;
}

// -- names --------------------------------------------------------------------

TEST(CheckpointNames, AreReadAsTheyAreWritten) {
  EXPECT_EQ(manifest_name(40), "step-000000000040.json");
  EXPECT_EQ(files_folder_name(40, 0x1a2b), "step-000000000040-00001a2b");
  EXPECT_EQ(table_file_name(3, 0, 12), "table-3.shard-0-of-12.safetensors");
  for (const std::uint64_t step : {std::uint64_t{0}, std::uint64_t{40}, std::uint64_t{999'999'999'999},
                                   std::uint64_t{1'000'000'000'000}, std::numeric_limits<std::uint64_t>::max()}) {
    EXPECT_EQ(step_of_manifest(manifest_name(step)), step);
    EXPECT_EQ(step_of_uncommitted_manifest(uncommitted_manifest_name(step)), step);
    EXPECT_EQ(step_of_files_folder(files_folder_name(step, 0xffffffff)), step);
    EXPECT_EQ(step_of_manifest(uncommitted_manifest_name(step)), std::nullopt);
    EXPECT_EQ(step_of_manifest(files_folder_name(step, 1)), std::nullopt);
    EXPECT_EQ(step_of_files_folder(manifest_name(step)), std::nullopt);
  }
}

TEST(CheckpointNames, OfOthersAreNotOurs) {
  for (const char* name : {"", "step-", "step-40.json", "step-0000000000040.json", "step-000000000040.json.gz",
                           "step-000000000040.json ", "Step-000000000040.json", "step-+00000000040.json",
                           "step-00000000004x.json", "step-99999999999999999999.json"}) {
    EXPECT_EQ(step_of_manifest(name), std::nullopt) << name;
  }
  for (const char* name : {"step-000000000040-1A2B3C4D", "step-000000000040-1a2b3c4", "step-000000000040-1a2b3c4d5",
                           "step-000000000040_1a2b3c4d", "1a2b3c4d", "step-40-1a2b3c4d", "../../../../1a2b3c4d"}) {
    EXPECT_EQ(step_of_files_folder(name), std::nullopt) << name;
  }
  EXPECT_TRUE(is_checkpoint_file("dense.safetensors"));
  EXPECT_TRUE(is_checkpoint_file("table-10.shard-1-of-2.safetensors"));
  for (const char* name : {"", "dense", "table-1.safetensors", "table-01.shard-1-of-2.safetensors",
                           "table-1.shard-1-of-2.safetensors.old", "my-table-1.shard-1-of-2.safetensors"}) {
    EXPECT_FALSE(is_checkpoint_file(name)) << name;
  }
}

TEST(CheckpointNames, TellWeightsFromOptimizerState) {
  EXPECT_TRUE(is_optimizer_state("state.0"));
  EXPECT_TRUE(is_optimizer_state("table.3.state.10"));
  EXPECT_TRUE(is_optimizer_state("top.0.weight.state.1"));
  for (const char* name : {"weight", "table.0.weight", "estate.0", "state", "state.x", "top.0.state.0.weight", ""}) {
    EXPECT_FALSE(is_optimizer_state(name)) << name;
  }
}

TEST(CheckpointNames, TellWeightsFromWhereATrainerWas) {
  for (const char* name :
       {"rank0.steps", "rank12.loops", "rank0.contexts", "rank3.server_steps", "rank0.skipped", "rank0.kept.sum.x"})
    EXPECT_TRUE(is_trainer_position(name)) << name;
  for (const char* name : {"rank0.replica1.0.weight", "rank.steps", "rankx.loops", "tower.steps", "rank0.steps.weight",
                           "rank0", "kept.sum.x", "table.0.weight", ""})
    EXPECT_FALSE(is_trainer_position(name)) << name;
}

// -- round trip ---------------------------------------------------------------

TEST(CheckpointManifest, ReadsWhatItWrote) {
  const checkpoint_manifest manifest = whole_manifest();
  const std::string text = to_text(manifest);
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, manifest);
  EXPECT_EQ(to_text(*parsed), text);
  // Users can read it: one line per setting and file.
  EXPECT_NE(text.find("\n    \"seed\": \"7\",\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n    {\"name\": \"dense.safetensors\", \"length\": 1000, \"digest\": \"aaaa"),
            std::string::npos)
      << text;
}

TEST(CheckpointManifest, OfARunThatBeginsHasNoFiles) {
  checkpoint_manifest manifest;
  manifest.folder = files_folder_name(0, 1);
  const auto parsed = parse_manifest(to_text(manifest));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, manifest);
}

TEST(CheckpointManifest, KeepsEveryBitOfANumber) {
  checkpoint_manifest manifest = whole_manifest();
  const std::vector<double> reals = {0.1,
                                     -0.0,
                                     1.0 / 3,
                                     5e-324,
                                     std::numeric_limits<double>::max(),
                                     std::nextafter(1.0, 2.0),
                                     std::numeric_limits<double>::infinity(),
                                     -std::numeric_limits<double>::infinity(),
                                     std::numeric_limits<double>::quiet_NaN(),
                                     123456789.123456789,
                                     2.2250738585072011e-308};
  manifest.position.ranks.clear();
  for (const double real : reals) {
    manifest.position.ranks.push_back({real, std::numeric_limits<std::uint64_t>::max()});
  }
  const auto parsed = parse_manifest(to_text(manifest));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  for (std::size_t at = 0; at < reals.size(); ++at) {
    EXPECT_EQ(std::bit_cast<std::uint64_t>(parsed->position.ranks[at].loss_sum),
              std::bit_cast<std::uint64_t>(reals[at]))
        << reals[at];
    EXPECT_EQ(parsed->position.ranks[at].samples, std::numeric_limits<std::uint64_t>::max());
  }
}

TEST(CheckpointManifest, KeepsEveryByteOfASetting) {
  checkpoint_manifest manifest = whole_manifest();
  std::string all;
  for (int byte = 1; byte < 256; ++byte) all += static_cast<char>(byte);
  manifest.settings = {{"data", "csv:caf\xe9 \"quoted\"\\\n\t.csv"}, {"columns", all}, {"empty", ""}, {"z", "\xff"}};
  const auto parsed = parse_manifest(to_text(manifest));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->settings, manifest.settings);
}

/// JSON readers reject bytes that are not UTF-8.
TEST(CheckpointManifest, IsJsonWhateverBytesASettingHas) {
  checkpoint_manifest manifest = whole_manifest();
  manifest.settings = {{"data", "csv:d\xff.csv"}, {"test-file", R"(C:\xff\x5c)"}};
  const std::string text = to_text(manifest);
  EXPECT_EQ(find_non_utf8(text), std::string::npos);
  boost::system::error_code failed;
  const auto read = boost::json::parse(text, failed);
  ASSERT_FALSE(failed) << failed.message();
  EXPECT_EQ(read.at("settings").at("data").as_string(), R"(csv:d\xff.csv)");
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->settings, manifest.settings);
}

TEST(CheckpointManifest, FromBeforeHasTheBytesAsTheyWere) {
  checkpoint_manifest manifest = whole_manifest();
  manifest.settings = {{"data", "csv:d\xff.csv"}, {"test-file", R"(C:\x5)"}};
  std::string older = to_text(manifest);
  for (const auto& [now, before] : {std::pair(R"(d\\xff.csv)", "d\xff.csv"), std::pair(R"(C:\\x5cx5)", R"(C:\\x5)")}) {
    ASSERT_NE(older.find(now), std::string::npos) << older;
    older.replace(older.find(now), std::string_view(now).size(), before);
  }
  const auto parsed = parse_manifest(signed_again(older));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(parsed->settings, manifest.settings);
}

TEST(CheckpointManifest, OfAnOlderSpellingHasThePresentOne) {
  checkpoint_manifest manifest = whole_manifest();
  manifest.settings = {{"row-dtype", "f16"}, {"wire-dtype", "fp16"}, {"matmul-precision", "fp32"}, {"data", "fp32"}};
  const auto read = parse_manifest(to_text(manifest));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->settings,
            (std::vector<setting>{
                {"row-dtype", "f16"}, {"wire-dtype", "f16"}, {"matmul-precision", "f32"}, {"data", "fp32"}}));
}

TEST(CheckpointManifest, IsTheOneInTheDocumentation) {
  checkpoint_manifest manifest = made_manifest(40);
  manifest.folder = "step-000000000040-1a2b3c4d";
  manifest.settings = {{"data", "synthetic"}, {"seed", "7"}};
  manifest.arithmetic = {{"instruction set", "AVX2"}, {"BLAS kernels", "Haswell"}};
  manifest.position = {20480, 4, 0.25, 0, {{1.0 / 3, 256}}, epoch_figures{0.36, 0.9, {}, {}, {}, 0.5, {}}};
  manifest.tables.resize(1);
  manifest.dense.resize(2);
  const checkpoint_folder folder;
  manifest.files.push_back(*write_made_dense(folder.path(), manifest.dense, 40));
  for (const std::uint32_t shard : {0U, 1U}) {
    manifest.files.push_back(*write_made_shard(folder.path(), manifest.tables[0], 0, {shard, 2}, 40));
  }
  EXPECT_NE(read_file(TROUPE_DOCS "/formats.md").find("```json\n" + to_text(manifest) + "```\n"), std::string::npos)
      << to_text(manifest);
}

TEST(CheckpointManifest, HasTheMetricsOfAProgramByTheirNames) {
  checkpoint_manifest manifest = whole_manifest();
  EXPECT_EQ(to_text(manifest).find("\"own\""), std::string::npos);
  manifest.position.last_epoch->own.add("mae", 0.75);
  manifest.position.last_epoch->own.add("f1", std::nullopt);
  const std::string text = to_text(manifest);
  EXPECT_NE(text.find(R"(, "rmse": "0.25", "own": {"mae": "0.75", "f1": null}})"), std::string::npos) << text;
  EXPECT_EQ(parse_manifest(text).value().position, manifest.position);
}

TEST(CheckpointManifest, OfVersion1IsReadWithoutTheFiguresThatCameLater) {
  checkpoint_manifest manifest = whole_manifest();
  manifest.position.last_epoch->test_loss = manifest.position.last_epoch->rmse = std::nullopt;
  std::string text = to_text(manifest);
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 1");
  const std::string added = ", \"test_loss\": null, \"rmse\": null";
  // With the later fields it is not valid for version 1.
  EXPECT_FALSE(parse_manifest(signed_again(text)).has_value());
  text.erase(text.find(added), added.size());
  const auto parsed = parse_manifest(signed_again(text));
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, manifest);
}

/// Only tables split by columns need version 3: versions of troupe that do not know it can read all others.
TEST(CheckpointManifest, OfTablesByColumnsSaysSo) {
  checkpoint_manifest manifest = whole_manifest();
  const std::string by_rows = to_text(manifest);
  EXPECT_EQ(by_rows.find("split"), by_rows.npos);
  EXPECT_NE(by_rows.find("\"version\": 2"), by_rows.npos);
  manifest.tables[1].split = table_split::columns;
  const std::string text = to_text(manifest);
  EXPECT_NE(text.find("\"version\": 3"), text.npos);
  EXPECT_NE(text.find(R"({"rows": 3, "shards": 1, "split": "columns", "parts": [)"), text.npos) << text;
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, manifest);
  EXPECT_NE(refusal(text, "\"split\": \"columns\"", "\"split\": \"diagonals\"").find("diagonals: unknown split"),
            std::string::npos);
  manifest = whole_manifest();
  manifest.tables[0].split = table_split::columns;
  manifest.tables[0].shards = 2;
  EXPECT_EQ(find_contradiction(manifest), "table 0: state.0: 2 shards of 1 columns: must be at most as many");
}

TEST(CheckpointManifest, HasWhatDecidesTheLastBits) {
  checkpoint_manifest manifest = whole_manifest();
  EXPECT_EQ(to_text(manifest).find("arithmetic"), std::string::npos) << "as checkpoints from before";
  manifest.arithmetic = {{"instruction set", "AVX2"}, {"BLAS kernels", "Haswell"}};
  const std::string text = to_text(manifest);
  EXPECT_NE(text.find("\"version\": 4"), text.npos);
  const auto parsed = parse_manifest(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  EXPECT_EQ(*parsed, manifest);
}

TEST(ResumeFrom, AnotherArithmeticIsToldWithWhatItMeans) {
  const std::vector<setting> saved = {{"instruction set", "AVX2"}, {"BLAS kernels", "Haswell"}};
  EXPECT_EQ(other_arithmetic(saved, saved), std::nullopt);
  EXPECT_EQ(other_arithmetic({}, saved), std::nullopt) << "a checkpoint from before does not have it";
  EXPECT_EQ(
      other_arithmetic(saved, std::vector<setting>{{"instruction set", "AVX2"}, {"BLAS kernels", "Zen"}}),
      "the processor computes in another way than that of the checkpoint's run (BLAS kernels Zen here and Haswell "
      "there): the weights will differ in their last bits from those of an unbroken run; for the same bits, "
      "resume on a machine of the same kind");
  const auto both =
      other_arithmetic(saved, std::vector<setting>{{"instruction set", "SSE4"}, {"BLAS kernels", "Prescott"}});
  ASSERT_TRUE(both);
  EXPECT_NE(both->find("(instruction set SSE4 here and AVX2 there, BLAS kernels Prescott here and Haswell there)"),
            std::string::npos)
      << *both;
}

// -- damage -------------------------------------------------------------------

TEST(CheckpointManifest, AnyChangedBitIsFound) {
  const std::string text = to_text(whole_manifest());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto parsed = parse_manifest(changed);
      ASSERT_FALSE(parsed.has_value()) << "byte " << at << ", bit " << bit;
      ASSERT_TRUE(parsed.error().torn);
    }
  }
}

TEST(CheckpointManifest, AnyMissingOrAddedByteIsFound) {
  const std::string text = to_text(whole_manifest());
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto parsed = parse_manifest(text.substr(0, length));
    ASSERT_FALSE(parsed.has_value()) << length;
    ASSERT_TRUE(parsed.error().torn);
  }
  for (std::size_t at = 0; at <= text.size(); ++at) {
    ASSERT_FALSE(parse_manifest(std::string(text).insert(at, 1, ' ')).has_value()) << at;
    ASSERT_FALSE(parse_manifest(std::string(text).insert(at, 1, '\n')).has_value()) << at;
  }
  EXPECT_EQ(parse_manifest("").error().message, "its end is missing (0 bytes are there)");
  EXPECT_EQ(parse_manifest(std::string(manifest_bytes_max + 1, ' ')).error().message,
            "8388609 bytes: must be at most 8388608");
}

// -- foreign manifests -----------------------------------------------------------------------------------------------

TEST(CheckpointManifest, AnotherVersionIsRefusedWithBothNumbers) {
  std::string text = to_text(whole_manifest());
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 6");
  const auto newer = parse_manifest(signed_again(text));
  ASSERT_FALSE(newer.has_value());
  EXPECT_FALSE(newer.error().torn);
  EXPECT_EQ(newer.error().message,
            "version 6: this version of troupe reads 1 to 5; a newer troupe wrote it, use that one");
  // Another version may say anything else.
  EXPECT_FALSE(parse_manifest(signed_again("{\"format\": \"troupe-checkpoint\", \"version\": 7, \"new\": [1], "
                                           "\"digest\": \"" +
                                           std::string(32, '0') + "\"\n}\n"))
                   .error()
                   .torn);
}

TEST(CheckpointManifest, WhateverTroupeDoesNotWriteIsRefused) {
  const std::string text = to_text(whole_manifest());
  const std::string other_way = "troupe would write it in another way: unknown or repeated keys?";
  EXPECT_EQ(refusal(text, "\"step\": 40", "\"step\": 4e1"), other_way);
  EXPECT_EQ(refusal(text, "\"step\": 40", "\"step\": 40, \"step\": 40"), other_way);
  EXPECT_EQ(refusal(text, "\"step\": 40", "\"step\":  40"), other_way);
  EXPECT_EQ(refusal(text, "\"step\": 40", "\"extra\": 1, \"step\": 40"), other_way);
  EXPECT_EQ(refusal(text, "\"samples\": 256", "\"samples\": 256, \"x\": []"), other_way);
  EXPECT_EQ(refusal(text, "troupe-checkpoint", "other"), "format other: must be troupe-checkpoint");
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"step\": 40", "\"step\": -40"},
                                                        {"\"step\": 40", "\"step\": 40.5"},
                                                        {"\"step\": 40", "\"step\": \"40\""},
                                                        {"\"step\": 40,", ""},
                                                        {"\"F32\"", "\"F33\""},
                                                        {"\"F32\"", "32"},
                                                        {"\"rows\": 10", "\"rows\": 1e99"},
                                                        {"\"seed\": \"7\"", "\"seed\": 7"},
                                                        {"\"loss\": \"0.1\"", "\"loss\": \"x\""},
                                                        {"\"loss\": \"0.1\"", "\"loss\": 0.1"},
                                                        {"\"shards\": 2", "\"shards\": 4294967296"},
                                                        {"\"step\": 40", "\"step\": [[[[[[[[[[]]]]]]]]]]"},
                                                        {"{", "["}}) {
    EXPECT_NE(refusal(text, from, to).find("a value is missing or of another type: "), std::string::npos) << to;
  }
}

TEST(CheckpointManifest, ThatContradictsItselfIsRefused) {
  const std::string text = to_text(whole_manifest());
  const auto refused = [&text](const std::string& from, const std::string& to) { return refusal(text, from, to); };
  EXPECT_EQ(refused("step-000000000040-1a2b3c4d", "../../../etc"), "folder ../../../etc: must be one of step 40");
  EXPECT_EQ(refused("step-000000000040-1a2b3c4d", "step-000000000041-1a2b3c4d"),
            "folder step-000000000041-1a2b3c4d: must be one of step 40");
  EXPECT_EQ(refused("\"shards\": 2", "\"shards\": 0"), "table 0: 0 shards: must be at least 1");
  EXPECT_EQ(refused("\"shards\": 2", "\"shards\": 4294967295"), "4 files: must be 4294967297");
  EXPECT_EQ(refused("\"shards\": 2", "\"shards\": 1"), "4 files: must be 3");
  EXPECT_EQ(refused("\"name\": \"state.0\"", "\"name\": \"weight\""), "table 0: weight is there twice");
  EXPECT_EQ(refused("\"columns\": 3", "\"columns\": 0"), "table 0: weight: 0 columns: must be at least 1");
  EXPECT_EQ(refused("\"columns\": 3", "\"columns\": 18446744073709551615"),
            "table 0: weight [10, 18446744073709551615]: its bytes must be less than 2^64");
  EXPECT_EQ(refused("top.0.bias", "table.0.weight"), "dense tensor table.0.weight: must not begin with 'table.'");
  EXPECT_EQ(refused("top.0.bias", "top.0.weight"), "dense tensor top.0.weight is there twice");
  EXPECT_EQ(refused("top.0.bias", "a/b"),
            "dense tensor a/b: must be letters, digits, dots, dashes and underscores, at most 200");
  EXPECT_EQ(refused("\"name\": \"dense.safetensors\"", "\"name\": \"../x\""), "file ../x: must be dense.safetensors");
  EXPECT_EQ(refused("table-0.shard-1-of-2", "table-0.shard-0-of-2"),
            "file table-0.shard-0-of-2.safetensors: must be table-0.shard-1-of-2.safetensors");
  checkpoint_manifest empty = whole_manifest();
  empty.tables.clear();
  empty.dense.clear();
  empty.files.clear();
  EXPECT_EQ(find_contradiction(empty), "no dense tensors at step 40: only a checkpoint of step 0 may be without any");
}

}  // namespace
}  // namespace troupe::model::checkpoint_manifest_test
