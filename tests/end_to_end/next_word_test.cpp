// Goal: the transformer of apps/examples/next_word.toml learns the text that its script generates, with the same result
// in processes, in stages and resumed, also on CUDA devices; a row that is not text is refused by line and column.
// Method: short runs compared by digest, and the entropy of the grammar. parity_test.cpp compares losses with PyTorch.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>

#include "model/replay.hpp"
#include "tests/end_to_end/cuda.hpp"
#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::next_word_test {
namespace {

/// The output of the example's script.
std::string rows_of_text(int rows) {
  const std::string command = "sh " TROUPE_EXAMPLES "/next_word.sh " + std::to_string(rows);
  const std::unique_ptr<FILE, int (*)(FILE*)> out(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> some{};
  while (const std::size_t count = fread(some.data(), 1, some.size(), out.get())) text.append(some.data(), count);
  return text;
}

/// The arguments that train the example on these rows.
args example(const std::string& rows) {
  return {"train", TROUPE_EXAMPLES "/next_word.toml", "--data", "csv:" + write_file("next_word.csv", rows)};
}

TEST(NextWord, IsPredictedAlmostAsWellAsTheGrammarAllows) {
  const outcome result = run(with(example(rows_of_text(4000)), {"--json", "--device", "cpu", "--trainers", "1"}));
  const auto epochs = events_of(result, "epoch");
  ASSERT_EQ(epochs.size(), 4U) << result.err;
  const auto loss = epochs.back().at("loss").to_number<double>();  // PyTorch reaches 0.62
  EXPECT_LT(loss, 0.75) << "log(64) / 7 is 0.594, log(16) is 2.77";
  EXPECT_GT(loss, 0.55);
}

TEST(NextWord, HasOneResultInProcessesStagesAndResumed) {
  const args job =
      with(example(rows_of_text(400)), {"--json", "--device", "cpu", "--trainers", "2", "--micro-batches", "2"});
  const args whole = with(job, {"--steps", "5"});
  const std::string digest = digest_of(run(whole));
  EXPECT_NE(digest, "");
  EXPECT_EQ(digest_of(run(with(whole, {"--processes"}))), digest);
  EXPECT_EQ(digest_of(run(with(whole, {"--pipeline", "2", "--stages", "0,1"}))), digest);
  EXPECT_EQ(digest_of(run(with(whole, {"--pipeline", "3", "--stages", "0,2,5"}))), digest);
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, {"--steps", "2", "--checkpoint-every", "1", "--save", folder.path()})).exit_code, 0);
  EXPECT_EQ(digest_of(run(with(whole, {"--resume", folder.path()}))), digest);
}

TEST(NextWord, HasTheNetworkOfTheReferenceRun) {
  const auto reference = model::open_reference_run(reference_run("next_word.safetensors"));
  ASSERT_TRUE(reference.has_value()) << reference.error().message;
  const auto layers = std::ranges::find(reference->settings, "layers", &model::setting::first);
  ASSERT_NE(layers, reference->settings.end());
  const args job = with(example(rows_of_text(100)), {"--print-job"});
  const outcome printed = run(job);
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_EQ(run(with(job, {"--layers", layers->second})).out, printed.out);
  EXPECT_NE(run(with(job, {"--layers", R"([{"kind":"linear","out":16}])"})).out, printed.out);
}

/// 100 rows; the row in line 52 has `number` in its sixth column.
std::string with_wrong_word(const std::string& number) {
  std::string text = rows_of_text(100);
  std::size_t at = 0;
  for (int line = 1; line < 52; ++line) at = text.find('\n', at) + 1;
  for (int column = 1; column < 6; ++column) at = text.find(',', at) + 1;
  return text.replace(at, text.find(',', at) - at, number);
}

void expect_refused(const args& more) {
  for (const std::string number : {"16", "-1", "7.5"}) {
    const outcome result = run(with(example(with_wrong_word(number)), more));
    EXPECT_EQ(result.exit_code, 2);
    const std::string said =
        "next_word.csv line 52: column 6 (w6): " + number + ": must be a whole number between 0 and 15, an id";
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
  }
}

TEST(NextWord, OutsideOfTheTableIsRefusedWithItsLineAndColumn) { expect_refused({"--device", "cpu"}); }

TEST(NextWord, OutOfATransformedColumnOrBesideTablesIsRefused) {
  const std::string embedding = R"([{"kind":"embedding","rows":16,"dim":2},{"kind":"flatten"},{"kind":"linear","out":)";
  const auto said = [](const args& job) {
    const outcome result = run(with({"train", "--device", "cpu", "--steps", "1"}, job));
    EXPECT_EQ(result.exit_code, 2);
    return result.err;
  };
  const std::string data = "csv:" + write_file("ids.csv", "a,b,y\n1,2,0\n3,4,1\n");
  const args csv = {"--data", data, "--batch-size", "1", "--trainers", "1", "--layers", embedding + "1}]", "--columns"};
  EXPECT_NE(
      said(with(csv, {R"([{"name":"a","kind":"numeric"},{"name":"b","kind":"numeric","transform":"log1p"},
                                {"name":"y","kind":"label"}])"}))
          .find("--columns: column 2 (b): transform log1p: makes no ids, which the network takes; leave it out\n"),
      std::string::npos);
  EXPECT_NE(said({"--data", "adult", "--layers", embedding + "1}]"})
                .find("--layers: embedding takes ids, and adult has tables, whose rows the network takes too; leave "
                      "either out\n"),
            std::string::npos);
}

TEST(NextWord, MayBeAnImagesPixels) {
  const auto trained = [](const char* options) {
    return run({"train", "--data", written_images("train", 64), "--classes", "4", "--steps", "2", "--device", "cpu",
                "--layers",
                std::string(R"([{"kind":"embedding","dim":2,)") + options +
                    R"(},{"kind":"flatten"},{"kind":"linear","out":4}])"});
  };
  EXPECT_EQ(trained(R"("rows":256,"scale":255)").exit_code, 0);
  const outcome few = trained(R"("rows":200,"scale":255)");
  EXPECT_EQ(few.exit_code, 2);
  EXPECT_NE(few.err.find(" / 255: must be a whole number between 0 and 199 once multiplied by 255, an id\n"),
            std::string::npos)
      << few.err;
  const outcome unscaled = trained(R"("rows":256)");
  EXPECT_EQ(unscaled.exit_code, 2);
  EXPECT_NE(unscaled.err.find("; give the embedding a scale of 255\n"), std::string::npos) << unscaled.err;
}

using NextWordGpu = CudaGpu;

TEST_F(NextWordGpu, IsLearntAsOnTheProcessor) {
  args job = example(rows_of_text(400));
  job.erase(job.begin());
  const run_figures there = train_on_cards(with(job, {"--steps", "5", "--device", "cuda"}));
  const run_figures here = train_on_cards(with(job, {"--steps", "5", "--device", "cpu"}));
  EXPECT_NEAR(there.loss, here.loss, 1e-4);
  EXPECT_NE(there.digest, "");
}

TEST_F(NextWordGpu, OutsideOfTheTableIsRefusedWithItsLineAndColumn) { expect_refused({"--device", "cuda"}); }

}  // namespace
}  // namespace troupe::end_to_end::next_word_test
