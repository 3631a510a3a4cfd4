// Goal: networks whose layers are cut into slices train what whole ones do, with the same bits wherever the slices are
// and however the network is cut besides.
// Method: PyTorch's float64 reference runs, and digests of the same job with the same number of slices.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::tensor_parallel_test {
namespace {

std::string reference(const std::string& name) { return std::string(TROUPE_REFERENCE_RUNS) + "/" + name + ".safetensors"; }

words slices(const std::string& count, const words& further = {}) {
  return with({"--tensor-parallel", count}, further);
}

const words four_micro_batches = {"--micro-batches", "4"};
const words two_stages = {"--pipeline", "2"};
const words gpipe = {"--pipeline", "2", "--schedule", "gpipe"};

/// The convolutions, and a pair of linear layers after them.
words image_job() {
  std::string layers = convolutions;
  const std::string dropout = "kind = \"dropout\"\nrate = 0.3\n";
  return with(layered_job(layers.replace(layers.find(dropout), dropout.size(), "kind = \"gelu\"\n")),
              four_micro_batches);
}

/// An MLP of two pairs, with tables on servers; the trainers' batches end unequally.
words wide_job(const words& further = {}) {
  return with({"train", "--json", "--data", "adult", "--steps", "30", "--hidden", "48,24,12", "--trainers", "2",
               "--device", "cpu", "--micro-batches", "4"},
              further);
}

TEST(TensorParallel, TrainsWhatPyTorchDoes) {
  struct job {
    const char* run;
    words cut;
  };
  for (const job& one : {job{"ctr_adagrad", slices("2")}, job{"ctr_adagrad", slices("4", {"--servers", "3"})},
                         job{"ctr_adagrad", slices("2", {"--pipeline", "2"})}, job{"mlp_mse", slices("5")},
                         job{"mlp_mse", slices("2", {"--processes"})}, job{"cross", slices("8")},
                         job{"cross", slices("2", {"--pipeline", "3"})}}) {
    const outcome ended = run(with({"parity", reference(one.run), "--json"}, one.cut));
    EXPECT_EQ(ended.exit_code, 0) << one.run << testing::PrintToString(one.cut) << ended.out << ended.err;
  }
}

TEST(TensorParallel, HasTheSameBitsWhereverItsSlicesAre) {
  for (const words& job : {wide_job(), image_job()}) {
    for (const char* count : {"2", "4"}) {
      const std::string expected = digest_of(run(with(job, slices(count))));
      for (const words& options :
           {two_stages, gpipe, words{"--processes"}, with(two_stages, {"--processes"}), words{"--threads", "1"}})
        EXPECT_EQ(digest_of(run(with(job, slices(count, options)))), expected) << testing::PrintToString(options);
    }
  }
}

TEST(TensorParallel, WorksWithWhatElseAStepMayHave) {
  for (const words& options :
       {words{"--accumulate", "3"}, words{"--nan", "skip"}, words{"--clip-norm", "0.05"},
        words{"--trainers", "1", "--accumulate", "2", "--clip-norm", "0.02"}, words{"--trainers", "3"},
        words{"--interaction", "dot"}, words{"--table-split", "columns", "--servers", "2"}}) {
    const words job = wide_job(options);
    const auto whole = last_event(run(job), "done");
    const auto cut = last_event(run(with(job, slices("2"))), "done");
    EXPECT_NEAR(cut.at("loss").to_number<double>(), whole.at("loss").to_number<double>(), 1e-5)
        << testing::PrintToString(options);
    EXPECT_EQ(last_event(run(with(job, slices("2", with(two_stages, {"--processes"})))), "done").at("weights_digest"),
              cut.at("weights_digest"))
        << testing::PrintToString(options);
  }
}

/// The trainers' clipped steps depend on the norm, so on each number being counted once.
TEST(TensorParallel, CountsEachNumberOfAGradientOnce) {
  const words job = wide_job({"--clip-norm", "0.01", "--steps", "60"});
  const auto whole = last_event(run(job), "done");
  const auto cut = last_event(run(with(job, slices("4"))), "done");
  EXPECT_NEAR(cut.at("loss").to_number<double>(), whole.at("loss").to_number<double>(), 1e-5);
}

TEST(TensorParallel, IsResumedUnderAnotherSplitting) {
  const words job = wide_job();
  const std::string expected = digest_of(run(with(job, slices("2"))));
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, slices("2", {"--steps", "9", "--save", folder.path()}))).exit_code, 0);
  const words on = {"train", "--resume", folder.path(), "--device", "cpu", "--json", "--save", folder.path()};
  EXPECT_EQ(run(with(on, slices("2", with(two_stages, {"--steps", "16", "--processes"})))).exit_code, 0);
  EXPECT_EQ(digest_of(run(with(on, {"--pipeline", "1", "--steps", "30"}))), expected);
  const outcome whole = run(with(on, {"--pipeline", "1", "--tensor-parallel", "1", "--steps", "40"}));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
}

TEST(TensorParallel, GoesOnWhenASliceDies) {
  const words job = {"train",  "--json", "--data",   "tutorial", "--epochs",          "300", "--hidden", "16",
                     "--seed", "7",      "--device", "cpu",      "--tensor-parallel", "2"};
  const std::string expected = digest_of(run(job));
  const model::checkpoint_folder folder;
  program running(with(job, {"--processes", "--save", folder.path(), "--checkpoint-every", "100"}));
  ASSERT_TRUE(running.wait_for_output("\"event\":\"checkpoint\",\"step\":200,")) << running.error();
  ASSERT_EQ(kill(process_of(running, "trainer 1"), SIGKILL), 0);
  const outcome ended = running.finish();
  EXPECT_EQ(digest_of(ended), expected) << ended.err;
  EXPECT_EQ(last_event(ended, "done").at("attempts").to_number<int>(), 2);
}

TEST(TensorParallel, ThatCannotBeIsRefused) {
  const auto said = [](const words& options) {
    return expect_error(run(with({"train", "--data", "adult"}, options)), 2);
  };
  EXPECT_EQ(said({"--tensor-parallel", "3", "--hidden", "16,8"}),
            "troupe: error: --tensor-parallel 3: layer 0 (--hidden) has 16 outputs, which 3 slices cannot share "
            "equally; use a divisor of 16, or another width");
  EXPECT_NE(said({"--tensor-parallel", "2", "--hidden", ""}).find("has no two linear layers"), std::string::npos);
  EXPECT_NE(said({"--tensor-parallel", "0"}).find("--tensor-parallel 0"), std::string::npos);
  EXPECT_NE(said({"--tensor-parallel", "2", "--elastic", "1:2"}).find("--elastic changes the number of whole trainers"),
            std::string::npos);
  EXPECT_NE(said({"--tensor-parallel", "2", "--pipeline", "2", "--stages", "0,1"}).find("amid a pair"),
            std::string::npos);
  EXPECT_NE(said({"--tensor-parallel", "2", "--matmul-precision", "tf32"}).find("--matmul-precision"),
            std::string::npos);
}

/// A recording tells how long slices wait for each other, and can be run again, whole and part by part.
TEST(TensorParallel, IsTracedAndReplayed) {
  const model::checkpoint_folder traces;
  run({"train", "--data", "adult", "--steps", "12", "--pipeline", "2", "--tensor-parallel", "2", "--trainers", "1",
       "--hidden", "16,8,4", "--device", "cpu", "--trace", "payload", "--trace-dir", traces.path()});
  EXPECT_EQ(run({"trace", "check", traces.path()}).exit_code, 0);
  const auto summary = boost::json::parse(run({"trace", "summary", traces.path(), "--json"}).out).as_object();
  const auto& parts = summary.at("pipeline").at("stages").as_array();
  ASSERT_EQ(parts.size(), 4U);
  for (const auto& one : parts) {
    EXPECT_EQ(one.at("forward").to_number<int>(), 24);
    EXPECT_EQ(one.at("backward").to_number<int>(), 24);
  }
  const outcome whole = run({"trace", "replay", traces.path()});
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  for (const char* actor : {"trainer 0", "trainer 1", "trainer 2", "trainer 3"}) {
    const outcome alone = run({"trace", "replay", traces.path(), "--actor", actor});
    EXPECT_EQ(alone.exit_code, 0) << actor << alone.err << alone.out;
  }
}

}  // namespace
}  // namespace troupe::end_to_end::tensor_parallel_test
