// Goal: the splitting of tables over servers changes no bit of a run's results, however it is set up, and runs resume
// from each other's checkpoints. Method: `done` events of one job with different splittings, servers and processes.

#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "tests/end_to_end/cuda.hpp"
#include "tests/end_to_end/traced.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::table_split_test {
namespace {

const args by_columns = {"--table-split", "columns"};

/// 7 columns, which are not divisible by 2 or 3.
const args any_steps = {"train", "--json", "--data", "adult", "--dim", "7", "--device", "cpu"};
const args adult_job = with(any_steps, {"--steps", "40"});
/// Bags of several indices; some rows occur often.
const args bags_job = {"train",   "--json", "--data",    "synthetic", "--tables", "3",
                       "--rows",  "500",    "--dim",     "5",         "--bag",    "4",
                       "--steps", "20",     "--id-skew", "zipf:1.1",  "--device", "cpu"};

/// All results of a run.
struct findings {
  std::string digest;
  std::string loss;
  std::string log_loss;
  std::string auc;

  bool operator==(const findings&) const = default;
};

void PrintTo(const findings& one, std::ostream* out) {
  *out << one.digest << ", loss " << one.loss << ", log loss " << one.log_loss << ", auc " << one.auc;
}

findings found_by(const args& job) {
  const outcome ended = run(job);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  if (ended.exit_code != 0) return {};
  const auto done = last_event(ended, "done");
  const auto text = [&](const char* name) {
    return done.contains(name) ? boost::json::serialize(done.at(name)) : std::string();
  };
  return {text("weights_digest"), text("loss"), text("log_loss"), text("auc")};
}

args on_servers(const args& job, const char* count, const args& more = {}) {
  return with(with(job, {"--servers", count}), more);
}

/// Expects the findings of one server with 1, 2 and 3 servers, split by rows and by columns.
void expect_one_result(const args& job) {
  const findings whole = found_by(on_servers(job, "1"));
  EXPECT_NE(whole.digest, "");
  for (const char* count : {"1", "2", "3"})
    for (const args& split : {args{"--table-split", "rows"}, by_columns})
      for (const args& set_up : {args{}, args{"--processes"}})
        EXPECT_EQ(found_by(on_servers(job, count, with(split, set_up))), whole)
            << testing::PrintToString(job) << count << testing::PrintToString(with(split, set_up));
}

TEST(TableSplit, ChangesNoBitWithAdagrad) { expect_one_result(adult_job); }

TEST(TableSplit, ChangesNoBitWithAdam) { expect_one_result(with(adult_job, {"--sparse-optimizer", "adam"})); }

TEST(TableSplit, ChangesNoBitOfPooledBags) {
  expect_one_result(with(bags_job, {"--sparse-optimizer", "sgd:momentum=0.9"}));
}

TEST(TableSplit, ChangesNoBitOfRowsOf16Bits) {
  expect_one_result(with(bags_job, {"--row-dtype", "f16", "--wire-dtype", "bf16", "--sparse-optimizer", "adagrad"}));
}

TEST(TableSplit, GoesWithTheOtherWaysToTrain) {
  for (const args& more :
       {args{"--accumulate", "3", "--nan", "skip"}, args{"--consistency", "ssp:2", "--trainers", "1"},
        args{"--interaction", "dot", "--micro-batches", "3"},
        args{"--sparse-optimizer", "lazy-adam", "--threads", "1"}}) {
    const args job = with(adult_job, more);
    EXPECT_EQ(found_by(on_servers(job, "3", by_columns)), found_by(on_servers(job, "1")))
        << testing::PrintToString(more);
  }
  EXPECT_NE(found_by(on_servers(adult_job, "2", with(by_columns, {"--consistency", "async"}))).digest, "");
}

TEST(TableSplit, LeavesServersWithoutColumnsWithoutWork) {
  const args narrow = {"train", "--json", "--data", "adult", "--dim", "2", "--steps", "20", "--device", "cpu"};
  const findings whole = found_by(narrow);
  for (const args& set_up : {args{}, args{"--processes"}})
    EXPECT_EQ(found_by(on_servers(narrow, "3", with(by_columns, set_up))), whole);
}

TEST(TableSplit, MayBeAnotherOnResuming) {
  for (const char* optimizer : {"adagrad", "adam"}) {
    const args job = with(any_steps, {"--sparse-optimizer", optimizer, "--row-dtype", "bf16"});
    const findings whole = found_by(with(job, {"--steps", "40"}));
    const model::checkpoint_folder folder;
    const args saving = {"--save", folder.path(), "--checkpoint-every", "10", "--steps"};
    const args going_on = {"--resume", folder.path(), "--save", folder.path(), "--steps"};
    found_by(on_servers(job, "3", with(by_columns, with(saving, {"10"}))));
    found_by(on_servers(job, "2", with(going_on, {"20", "--table-split", "rows"})));
    found_by(on_servers(job, "2", with(by_columns, with(going_on, {"30"}))));
    EXPECT_EQ(found_by(on_servers(job, "3", with(by_columns, with(going_on, {"40", "--processes"})))), whole)
        << optimizer;
  }
}

/// The tensors after the header of a safetensors file.
std::string tensors_of(const std::string& file) {
  const std::string content = read_file(file);
  std::uint64_t header = 0;
  std::memcpy(&header, content.data(), sizeof header);
  return content.substr(sizeof header + header);
}

TEST(TableSplit, IsNotSeenInExports) {
  const auto exported = [](const args& options) {
    const model::checkpoint_folder folder;
    found_by(with(with(adult_job, options), {"--save", folder / "saved"}));
    EXPECT_EQ(run({"checkpoint", "verify", folder / "saved"}).exit_code, 0);
    EXPECT_EQ(run({"checkpoint", "export", folder / "saved", "-o", folder / "file"}).exit_code, 0);
    return tensors_of(folder / "file");
  };
  const std::string whole = exported({"--servers", "1"});
  EXPECT_GT(whole.size(), 1000U);
  EXPECT_EQ(exported(with(by_columns, {"--servers", "3"})), whole);
}

TEST(TableSplit, SurvivesALostServer) {
  const args job = {"train", "--json",    "--data", "tutorial",   "--epochs", "100",           "--seed",
                    "7",     "--servers", "2",      "--trainers", "2",        "--table-split", "rows"};
  args columns = job;
  columns.back() = "columns";
  const std::string whole = digest_of(run(job));
  const model::checkpoint_folder folder;
  program running(
      with(columns, {"--processes", "--dead-after", "1", "--save", folder.path(), "--checkpoint-every", "100"}));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(process_of(running, "server 1"), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), whole) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 2);
}

TEST(TableSplit, GoesWithTrainersThatJoinAndLeave) {
  const auto memberships = [](const args& split) {
    const model::checkpoint_folder folder;
    return found_by(with(on_servers(adult_job, "2", split),
                         {"--elastic", "1:4", "--memberships", "0:2,10:4,30:1", "--save", folder.path()}));
  };
  EXPECT_EQ(memberships(by_columns), memberships({}));
}

/// Reference runs contain the tables' initial weights.
TEST(TableSplit, GivenWeightsReachTheirColumns) {
  for (const char* file : {"tutorial_sum.safetensors", "tutorial_mean.safetensors"}) {
    const args job = {"train", "--json", "--data", "replay:" + reference_run(file), "--device", "cpu"};
    const findings whole = found_by(on_servers(job, "1"));
    EXPECT_EQ(found_by(on_servers(job, "3", by_columns)), whole) << file;
  }
}

TEST(TableSplit, IsDoneAgainFromARecording) {
  const model::checkpoint_folder folder;
  const args recording = {"--steps", "5", "--trace", "payload", "--trace-dir", folder / "trace"};
  found_by(on_servers(any_steps, "2", with(by_columns, recording)));
  const outcome again = run({"trace", "replay", folder / "trace"});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  const std::string line = expect_error(run({"trace", "blame", "0", "1", folder / "trace"}), 2);
  EXPECT_FINDS(line, "table 0 is split by columns, so that no server has all of row 1");
}

TEST(TableSplit, ThatCannotBeIsRefused) {
  const auto said = [](const args& options) { return expect_error(run(with({"train"}, options)), 2); };
  EXPECT_EQ(said({"--table-split", "colums"}),
            "troupe: error: --table-split colums: unknown; the nearest is columns, and there are rows or columns");
  EXPECT_EQ(
      said(with(by_columns, {"--sparse-optimizer", "rowwise-adagrad"})),
      "troupe: error: --sparse-optimizer rowwise-adagrad: needs whole rows, which --table-split columns cuts; use "
      "adagrad, or --table-split rows");
  EXPECT_EQ(said(with(by_columns, {"--clip-norm", "1"})),
            "troupe: error: --clip-norm 1: adds up the squares of whole rows, which --table-split columns cuts; use "
            "--table-split rows");
}

/// Also from a checkpoint of tables split by columns. Servers and trainers are on cards.
TEST_F(CudaGpu, TablesByColumnsHaveTheBitsOfTablesByRows) {
  args there = with(bags_job, {"--sparse-optimizer", "adagrad"});
  *std::ranges::find(there, "cpu") = "cuda";
  args short_job = there;
  short_job.erase(std::ranges::find(short_job, "--steps"), std::ranges::find(short_job, "20") + 1);
  for (const args& more : {args{}, args{"--row-dtype", "f16"}}) {
    const findings whole = found_by(on_servers(there, "1", more));
    EXPECT_EQ(found_by(on_servers(there, "3", with(by_columns, more))), whole);
    const model::checkpoint_folder folder;
    const args half = {"--resume", folder.path(), "--steps", "20"};
    found_by(on_servers(short_job, "3", with(by_columns, with(more, {"--save", folder.path(), "--steps", "10"}))));
    EXPECT_EQ(found_by(on_servers(short_job, "2", with(more, half))), whole);
  }
}

}  // namespace
}  // namespace troupe::end_to_end::table_split_test
