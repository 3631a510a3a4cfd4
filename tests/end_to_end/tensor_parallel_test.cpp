// Goal: networks whose layers are split into slices train like whole ones, with the same bits wherever the slices are
// and however else the network is split.
// Method: PyTorch's float64 reference runs, and digests of the same job with the same number of slices.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/safetensors.hpp"
#include "tests/end_to_end/layered_job.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::tensor_parallel_test {
namespace {

std::string reference(const std::string& name) {
  return std::string(TROUPE_REFERENCE_RUNS) + "/" + name + ".safetensors";
}

args slices(const std::string& count, const args& further = {}) { return with({"--tensor-parallel", count}, further); }

const args four_micro_batches = {"--micro-batches", "4"};
const args two_stages = {"--pipeline", "2"};
const args gpipe = {"--pipeline", "2", "--schedule", "gpipe"};

args image_job() { return with(layered_job(paired_convolutions()), four_micro_batches); }

/// An MLP of two pairs, with tables on servers.
args wide_job(const std::string& trainers = "2", const std::string& steps = "30") {
  return {"train",      "--json", "--data",   "adult", "--steps",         steps, "--hidden", "48,24,12",
          "--trainers", trainers, "--device", "cpu",   "--micro-batches", "4"};
}

TEST(TensorParallel, TrainsWhatPyTorchDoes) {
  struct job {
    const char* run;
    args cut;
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
  for (const args& job : {wide_job(), image_job()}) {
    const std::string expected = digest_of(run(with(job, slices("4"))));
    for (const args& options : {two_stages, gpipe, args{"--processes"}, with(two_stages, {"--processes"}),
                                with(gpipe, {"--processes"}), args{"--threads", "1"}})
      EXPECT_EQ(digest_of(run(with(job, slices("4", options)))), expected) << testing::PrintToString(options);
  }
}

// -- compared with the whole network ------------------------------------------------------------

/// The final weights of a job, by tensor.
std::map<std::string, std::vector<float>> weights_of(const args& job) {
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(job, {"--save", folder.path()})).exit_code, 0);
  const std::string file = folder.path() + "/weights.safetensors";
  EXPECT_EQ(run({"checkpoint", "export", folder.path(), "-o", file, "--weights-only"}).exit_code, 0);
  const auto read = model::safetensors_file::open(file);
  EXPECT_TRUE(read);
  std::map<std::string, std::vector<float>> weights;
  for (const auto& [name, entry] : read->header().tensors) weights[name] = *read->read_floats(name);
  return weights;
}

void expect_weights_within(double bound, const args& job, const args& cut) {
  const auto whole = weights_of(job);
  const auto is = weights_of(with(job, cut));
  ASSERT_EQ(is.size(), whole.size());
  double largest = 0;
  for (const auto& [name, numbers] : whole) {
    const auto& mine = is.at(name);
    ASSERT_EQ(mine.size(), numbers.size()) << name;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      largest = std::max(largest, std::abs(double{mine[i]} - numbers[i]) / std::max(1.0, std::abs(double{numbers[i]})));
  }
  EXPECT_LT(largest, bound) << testing::PrintToString(with(job, cut));
}

TEST(TensorParallel, TrainsWhatTheWholeNetworkDoesButForRounding) {
  for (const char* count : {"2", "4"}) {
    expect_weights_within(1e-5, wide_job("2", "1"), slices(count, two_stages));
    expect_weights_within(1e-4, wide_job("2", "60"), slices(count));
    expect_weights_within(1e-5, with(image_job(), {"--steps", "1"}), slices(count));
    expect_weights_within(1e-4, with(image_job(), {"--steps", "60"}), slices(count, two_stages));
  }
}

TEST(TensorParallel, WorksWithWhatElseAStepMayHave) {
  for (const args& job :
       {with(wide_job(), {"--accumulate", "3"}), with(wide_job(), {"--nan", "skip"}),
        with(wide_job("1"), {"--accumulate", "2", "--clip-norm", "0.02"}), with(wide_job("3"), {"--clip-norm", "0.05"}),
        with(wide_job(), {"--interaction", "dot"}), with(wide_job("1"), {"--consistency", "ssp:2"}),
        with(wide_job("3"), {"--table-split", "columns", "--servers", "2"})}) {
    const auto whole = last_event(run(job), "done");
    const auto cut = last_event(run(with(job, slices("2"))), "done");
    EXPECT_NEAR(cut.at("loss").to_number<double>(), whole.at("loss").to_number<double>(), 1e-5)
        << testing::PrintToString(job);
    EXPECT_EQ(last_event(run(with(job, slices("2", with(two_stages, {"--processes"})))), "done").at("weights_digest"),
              cut.at("weights_digest"))
        << testing::PrintToString(job);
  }
}

/// The steps of SGD depend on the norm by which they are clipped, so each number must be counted once.
TEST(TensorParallel, CountsEachNumberOfAGradientOnce) {
  const args job = with(wide_job("2", "60"), {"--clip-norm", "0.05", "--dense-optimizer", "sgd", "--dense-lr", "1"});
  for (const args& cut : {slices("4"), slices("2", two_stages)}) expect_weights_within(1e-4, job, cut);
}

TEST(TensorParallel, IsResumedUnderAnotherSplitting) {
  const args job = wide_job();
  const std::string expected = digest_of(run(with(job, slices("2"))));
  const model::checkpoint_folder folder;
  EXPECT_EQ(run(with(wide_job("2", "9"), slices("2", {"--save", folder.path()}))).exit_code, 0);
  const args on = {"train", "--resume", folder.path(), "--device", "cpu", "--json", "--save", folder.path()};
  EXPECT_EQ(run(with(on, slices("2", with(two_stages, {"--steps", "16", "--processes"})))).exit_code, 0);
  EXPECT_EQ(digest_of(run(with(on, {"--pipeline", "1", "--steps", "30"}))), expected);
  const outcome whole = run(with(on, {"--pipeline", "1", "--tensor-parallel", "1", "--steps", "40"}));
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
}

TEST(TensorParallel, GoesOnWhenASliceDies) {
  const args job = {"train",  "--json", "--data",   "tutorial", "--epochs",          "300", "--hidden", "16",
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
  const auto said = [](const args& options) {
    return expect_error(run(with({"train", "--data", "adult"}, options)), 2);
  };
  EXPECT_EQ(said({"--tensor-parallel", "3", "--hidden", "16,8"}),
            "troupe: error: --tensor-parallel 3: layer 0 (--hidden) has 16 outputs, which 3 slices cannot share "
            "equally; use a divisor of 16, or another width");
  EXPECT_FINDS(said({"--tensor-parallel", "2", "--hidden", "none"}), "has no two linear layers");
  EXPECT_FINDS(said({"--tensor-parallel", "0"}), "--tensor-parallel 0");
  EXPECT_FINDS(said({"--tensor-parallel", "2", "--elastic", "1:2"}), "--elastic changes the number of whole trainers");
  EXPECT_FINDS(said({"--tensor-parallel", "2", "--pipeline", "2", "--stages", "0,1"}), "amid a pair");
  EXPECT_FINDS(said({"--tensor-parallel", "2", "--matmul-precision", "tf32"}), "--matmul-precision");
}

/// A recording shows how long slices wait for each other, and can be replayed, whole and part by part.
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
