// Goal: a run on CUDA devices computes what it does on the processor, gives the same result twice and however it is
// distributed, and refuses what cannot work. Method: the real program on a device; without one, on emulated devices
// (two cards unless a test says otherwise), where tests that need two devices in one machine also run.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "tests/end_to_end/cuda.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::cuda_test {
namespace {

const args whole_epoch = {"--data", "adult", "--epochs", "1"};

// -- the same meaning ------------------------------------------------------------------------

TEST_F(CudaGpu, ReferenceRunsAreWithinTheirBound) {
  for (const char* file : {"tutorial_sum", "tutorial_mean", "mlp_mse", "ctr_adagrad"}) {
    for (const char* tables : {"cuda", "cpu"}) {
      SCOPED_TRACE(fmt::format("{}, tables: {}", file, tables));
      const outcome result = run({"parity", reference_run(fmt::format("{}.safetensors", file)), "--device", "cuda",
                                  "--server-device", tables, "--servers", "2", "--json"});
      EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
    }
  }
}

struct meaning {
  const char* name;
  args options;
};

void PrintTo(const meaning& one, std::ostream* out) { *out << one.name; }

class MeaningGpu : public CudaGpu, public testing::WithParamInterface<meaning> {};

TEST_P(MeaningGpu, IsTheProcessors) {
  const args& options = GetParam().options;
  const run_figures expected = train_on_cards(with(options, {"--device", "cpu"}));
  for (const args& placed : {args{"--device", "cuda"}, args{"--device", "cuda", "--server-device", "cpu"},
                             args{"--device", "cpu", "--server-device", "cuda"}}) {
    SCOPED_TRACE(testing::PrintToString(placed));
    const run_figures once = train_on_cards(with(options, placed));
    EXPECT_NEAR(once.loss, expected.loss, 1e-4 * std::max(1.0, std::abs(expected.loss)));
    EXPECT_EQ(train_on_cards(with(options, placed)).digest, once.digest);
  }
}

const std::vector<meaning> meanings = {
    {"adult", whole_epoch},
    {"clipped", with(adult, {"--clip-norm", "0.05", "--trainers", "3"})},
    {"accumulated", with(adult, {"--accumulate", "3", "--nan", "skip"})},
    {"accumulated_by_four", with(adult, {"--accumulate", "2", "--trainers", "4", "--hidden", "9,40,5"})},
    {"large_batches", {"--data", "synthetic", "--steps", "10", "--batch-size", "512", "--rows", "2", "--bag", "5"}},
    {"stale", with(adult, {"--consistency", "ssp:2", "--servers", "2"})},
    {"rows_of_bf16", with(adult, {"--row-dtype", "bf16", "--sparse-optimizer", "rowwise-adagrad"})},
    {"micro_batches", with(adult, {"--micro-batches", "3", "--accumulate", "2"})},
    {"small_buckets", with(adult, {"--bucket-mib", "0.001", "--dense-optimizer", "sgd:momentum=0.9"})},
    {"tutorial", {"--data", "tutorial", "--epochs", "5", "--sparse-optimizer", "adam"}},
    {"dlrm_with_dense_features", with(adult, {"--interaction", "dot", "--bottom-hidden", "8"})},
    {"dlrm",
     {"--data", "synthetic", "--steps", "20", "--rows", "1000", "--tables", "3", "--dim", "8", "--interaction", "dot"}},
};
INSTANTIATE_TEST_SUITE_P(Jobs, MeaningGpu, testing::ValuesIn(meanings),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(CudaGpu, TablesOnADeviceHaveTheProcessorsBits) {
  for (const char* optimizer : {"sgd", "adagrad", "adam", "lazy-adam"}) {
    SCOPED_TRACE(optimizer);
    const args options = {"--data", "tutorial", "--epochs", "3", "--device", "cpu", "--sparse-optimizer", optimizer};
    EXPECT_EQ(train_on_cards(with(options, {"--server-device", "cuda"})).digest, train_on_cards(options).digest);
  }
}

TEST_F(CudaGpu, TheNumberOfServersMakesNoDifference) {
  for (const args& options : {args{"--data", "adult", "--eval-every", "0", "--batch-size", "1024", "--steps", "5"},
                              args{"--data", "synthetic", "--batch-size", "256", "--rows", "2", "--steps", "3"},
                              args{"--data", "adult", "--eval-every", "0", "--clip-norm", "0.05", "--sparse-optimizer",
                                   "rowwise-adagrad", "--dim", "8", "--steps", "20"},
                              args{"--data", "adult", "--eval-every", "0", "--interaction", "dot", "--bottom-hidden",
                                   "8", "--trainers", "2", "--accumulate", "3", "--steps", "12"}}) {
    SCOPED_TRACE(testing::PrintToString(options));
    const std::string one = train_on_cards(with(options, {"--device", "cuda"})).digest;
    EXPECT_EQ(train_on_cards(with(options, {"--device", "cuda", "--servers", "3"})).digest, one);
    EXPECT_EQ(train_on_cards(with(options, {"--device", "cuda", "--server-device", "cpu"})).digest, one);
  }
}

TEST_F(CudaGpu, ACheckpointGoesOnWhereverItIsResumed) {
  const model::checkpoint_folder folder;
  const std::string half = folder.path() + "/half";
  const run_figures whole =
      train_on_cards({"--data", "adult", "--steps", "24", "--eval-every", "0", "--device", "cuda"});
  train_on_cards(with(adult, {"--device", "cuda", "--save", half}));
  EXPECT_EQ(train_on_cards({"--resume", half, "--steps", "24", "--device", "cuda"}).digest, whole.digest);
  EXPECT_NEAR(train_on_cards({"--resume", half, "--steps", "24", "--device", "cpu"}).loss, whole.loss, 1e-4);
}

// With memory for a copy of the tables, and without: then the optimizer step waits until they have been written, while
// the next step's lookups arrive.
TEST_F(CudaGpu, ACheckpointWhileTrainingGoesOnChangesNothing) {
  const args job = {"--data",   "synthetic", "--tables", "3", "--rows",   "1000", "--dim",  "8", "--batch-size", "64",
                    "--hidden", "16",        "--seed",   "5", "--device", "cuda", "--steps"};
  const std::string whole = train_on_cards(with(job, {"40"})).digest;
  const std::string clipped = train_on_cards(with(job, {"40", "--clip-norm", "0.05"})).digest;
  for (const char* memory : {"0", "100000000"}) {
    SCOPED_TRACE(memory);
    const model::checkpoint_folder folder;
    const auto saving = [&](const char* name) {
      return args{"--save", folder / name, "--checkpoint-every", "1", "--checkpoint-memory", memory};
    };
    EXPECT_EQ(train_on_cards(with(job, with({"40"}, saving("whole")))).digest, whole);
    EXPECT_EQ(train_on_cards(with(job, with({"40", "--clip-norm", "0.05"}, saving("clipped")))).digest, clipped);
    train_on_cards(with(job, with({"25"}, saving("half"))));
    EXPECT_EQ(train_on_cards({"--resume", folder / "half", "--steps", "40", "--device", "cuda"}).digest, whole);
  }
}

TEST_F(CudaGpu, LowerPrecisionLearnsAsWell) {
  const args longer = {"--data", "adult", "--steps", "100", "--eval-every", "0", "--device", "cuda"};
  const double exact = train_on_cards(longer).loss;
  for (const char* precision : {"tf32", "bf16"})
    EXPECT_NEAR(train_on_cards(with(longer, {"--matmul-precision", precision})).loss, exact, 5e-3) << precision;
}

TEST_F(CudaGpu, ACheckpointOfLowerPrecisionGoesOnOnTheProcessor) {
  const model::checkpoint_folder folder;
  const std::string half = folder.path() + "/half";
  train_on_cards(with(adult, {"--device", "cuda", "--matmul-precision", "tf32", "--save", half}));
  const args on = {"--resume", half, "--steps", "24", "--device", "cpu", "--matmul-precision", "f32"};
  EXPECT_NEAR(train_on_cards(on).loss,
              train_on_cards({"--data", "adult", "--steps", "24", "--eval-every", "0", "--device", "cpu"}).loss, 5e-3);
}

TEST_F(CudaGpu, MoreTrainersThanDevicesIsSaid) {
  const outcome result = run(with({"train", "--device", "cuda", "--devices", "0", "--trainers", "3"}, adult));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FINDS(result.err, "3 trainers on CUDA device 0, several on one");
}

TEST_F(CudaGpu, ATraceOfItHolds) {
  const model::checkpoint_folder folder;
  const std::string kept = folder.path() + "/trace";
  train_on_cards(
      {"--data", "tutorial", "--epochs", "2", "--device", "cuda", "--trace", "payload", "--trace-dir", kept});
  const outcome checked = run({"trace", "check", kept});
  EXPECT_EQ(checked.exit_code, 0) << checked.err << checked.out;
}

TEST_F(CudaGpu, ATraceOfItTellsWhatTheDevicesDid) {
  const model::checkpoint_folder folder;
  const std::string kept = folder.path() + "/trace";
  train_on_cards(with(adult, {"--device", "cuda", "--trainers", "2", "--trace", "full", "--trace-dir", kept}));
  const auto ask = [&kept](const char* what) {
    const outcome said = run({"trace", what, kept, "--json"});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return boost::json::parse(said.out).as_object();
  };
  const boost::json::object summed = ask("summary");
  const auto times_of = [&summed](const char* actor, const char* work) {
    std::uint64_t times = 0;
    for (const auto& one : summed.at("device_work").as_array())
      if (one.at("actor") == actor && one.at("what") == work) times += one.at("times").to_number<std::uint64_t>();
    return times;
  };
  for (const char* trainer : {"trainer 0", "trainer 1"}) {
    for (const char* work : {"forward/backward", "backward parameters"}) EXPECT_EQ(times_of(trainer, work), 12U);
    EXPECT_GE(times_of(trainer, "update"), 12U) << "one for each bucket";
    EXPECT_EQ(times_of(trainer, "copy"), 24U) << "of dense features to the device, of the loss from it";
  }
  for (const char* work : {"group", "update"}) EXPECT_EQ(times_of("server 0", work), 12U) << work;
  EXPECT_GE(times_of("server 0", "pool"), 12U);
  EXPECT_GE(times_of("allreduce", "sum"), 12U);
  const boost::json::object paths = ask("critical-path");
  std::int64_t on_device_ns = 0;
  for (const auto& part : paths.at("statistics").at("parts").as_array())
    if (part.at("kind") == "on device") on_device_ns += part.at("sum_ns").to_number<std::int64_t>();
  EXPECT_GT(on_device_ns, 0);
}

/// Compares the weights, and what a recording says the device did, and how often.
TEST_F(CudaGpu, StepsAsGraphsChangeNothingButWhenTheyAreTold) {
  const model::checkpoint_folder folder;
  const auto train = [&folder](const char* in_graphs) {
    const std::string kept = folder.path() + "/" + in_graphs;
    const run_figures made =
        train_on_cards(with(adult, {"--device", "cuda", "--trainers", "1", "--servers", "1", "--step-graph", in_graphs,
                                    "--trace", "full", "--trace-dir", kept}));
    EXPECT_EQ(run({"trace", "check", kept}).exit_code, 0);
    const outcome said = run({"trace", "summary", kept, "--json"});
    const boost::json::value summed = boost::json::parse(said.out);
    std::set<std::string> work;
    for (const auto& one : summed.at("device_work").as_array())
      work.insert(fmt::format("{}: {} times {}", std::string(one.at("actor").as_string()),
                              one.at("times").to_number<int>(), std::string(one.at("what").as_string())));
    return std::pair(made.digest, work);
  };
  const auto plain = train("off");
  EXPECT_EQ(train("on"), plain);
  EXPECT_TRUE(plain.second.contains("trainer 0: 12 times forward/backward")) << testing::PrintToString(plain.second);
}

TEST_F(CudaGpu, StepsAsGraphsAreRefusedByName) {
  const auto refusal = [](const args& more) {
    return expect_error(run(with({"train", "--device", "cuda", "--step-graph", "on"}, with(adult, more))), 2);
  };
  EXPECT_FINDS(refusal({"--trainers", "2"}), "--step-graph on: ");
  EXPECT_FINDS(refusal({"--trainers", "1", "--servers", "1", "--processes"}), "--processes");
  EXPECT_FINDS(refusal({"--trainers", "1", "--servers", "1", "--clip-norm", "1"}), "--clip-norm");
}

TEST_F(CudaGpu, ARecordingOfItIsReplayed) {
  const model::checkpoint_folder folder;
  const std::string kept = folder.path() + "/trace";
  train_on_cards({"--data", "tutorial", "--epochs", "2", "--device", "cuda", "--trace", "full", "--trace-dir", kept});
  const outcome again = run({"trace", "replay", kept, "--json"});
  EXPECT_EQ(again.exit_code, 0) << again.err << again.out;
  EXPECT_GT(last_event(again, "done").at("compared").to_number<int>(), 100);
  const std::string line = expect_error(run({"trace", "replay", kept, "--actor", "trainer 0"}), 2);
  EXPECT_FINDS(line, "the run was on CUDA devices");
}

/// NCCL treats processes with different NCCL_HOSTID as different hosts, which may share a card.
TEST_F(CudaGpu, TwoProcessesAddUpOnOneDeviceAsTwoHostsWould) {
  gathered_run all(adult);
  all.join({"--as", "server", "--device", "cpu"});
  for (const char* host : {"one", "other"})
    all.join({"--as", "trainer", "--device", "cuda", "--devices", "0"}, {{"NCCL_HOSTID", host}});
  const std::string digest = all.finish();
  EXPECT_EQ(digest, train_on_cards(with(adult, {"--device", "cuda", "--devices", "0"})).digest);
}

// -- several devices -------------------------------------------------------------------------

TEST_F(EmulatedCudaGpu, TwoDevicesAndOneGiveTheSame) {
  const args options = with(adult, {"--device", "cuda"});
  const run_figures one = train_on_cards(options, with_cards("devices=1"));
  EXPECT_EQ(train_on_cards(options, with_cards("devices=2")).digest, one.digest);
  EXPECT_EQ(train_on_cards(with(options, {"--devices", "1,0"}), with_cards("devices=2")).digest, one.digest);
  EXPECT_EQ(train_on_cards(with(options, {"--processes"}), with_cards("devices=2")).digest, one.digest);
}

// The sum of three addends depends on their order. In one process the devices add in rank order.
TEST_F(EmulatedCudaGpu, TheOrderInWhichProcessesJoinMakesNoDifference) {
  const launch three_cards = with_cards("devices=3");
  const args options = {"--data", "synthetic", "--trainers", "3",        "--batch-size",
                        "8",      "--steps",   "5",          "--device", "cuda"};
  const std::string expected = train_on_cards(options, three_cards).digest;
  for (int i = 0; i < 4; ++i) EXPECT_EQ(train_on_cards(with(options, {"--processes"}), three_cards).digest, expected);
}

TEST_F(EmulatedCudaGpu, ProcessesGoToTheProcessorWhereDevicesAreTooFewAndNobodyAskedForThem) {
  // Steps so large that --device auto chooses devices.
  const args large = {"--data", "adult", "--steps", "2", "--eval-every", "0", "--batch-size", "4096"};
  launch one_card = with_cards("devices=1");
  const outcome result = run(with({"train", "--processes", "--json"}, large), one_card);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FINDS(result.err, "so all compute on the processor");
  EXPECT_EQ(digest_of(result), train_on_cards(with(large, {"--device", "cpu"})).digest);
  EXPECT_EQ(train_on_cards(large, with_cards("devices=1,capability=7.5")).digest, digest_of(result));
}

/// Process numbers depend on the order of joining; how processes exchange their devices is not a difference.
TEST_F(EmulatedCudaGpu, HowDevicesAreIntroducedIsNoDifferenceOfTwoRuns) {
  const model::checkpoint_folder folder;
  const args options = {"--data", "tutorial", "--epochs", "2", "--device", "cuda", "--processes", "--trace", "full"};
  for (const char* name : {"/one", "/other"}) train_on_cards(with(options, {"--trace-dir", folder.path() + name}));
  const outcome compared = run({"trace", "diff", folder.path() + "/one", folder.path() + "/other"});
  EXPECT_TRUE(compared.exit_code == 0 || compared.exit_code == 1) << compared.err;
  EXPECT_EQ(compared.out.find("group_devices"), std::string::npos) << compared.out;
}

TEST_F(EmulatedCudaGpu, FourTrainersOnThreeDevicesAreSummedUpOnEachFirst) {
  const args options = with(adult, {"--device", "cuda", "--trainers", "4"});
  const run_figures one = train_on_cards(options, with_cards("devices=1"));
  const run_figures three = train_on_cards(options, with_cards("devices=3"));
  EXPECT_NEAR(three.loss, one.loss, 1e-5);
  EXPECT_EQ(train_on_cards(options, with_cards("devices=3")).digest, three.digest);
}

/// Runs one server and a trainer for each element of `options`, all of which join.
std::vector<outcome> joined_trainers(gathered_run& all, const std::vector<args>& options, int code) {
  all.join({"--as", "server", "--device", "cpu"});
  for (const args& one : options) all.join(with({"--as", "trainer"}, one));
  return all.finish_members(code);
}

TEST_F(EmulatedCudaGpu, ProcessesThatShareADeviceAreRefused) {
  launch how = with_token();
  how.environment.emplace_back("TROUPE_EMULATED_CUDA", "devices=1");
  gathered_run all(adult, {}, how);
  joined_trainers(all, {{"--device", "cuda"}, {"--device", "cuda"}}, 1);
  const outcome master = all.master().finish();
  EXPECT_EQ(master.exit_code, 2);
  EXPECT_FINDS(master.err, "compute on the same CUDA device");
}

TEST_F(EmulatedCudaGpu, TrainersOnDevicesAndOnProcessorsDoNotMix) {
  gathered_run all(adult);
  joined_trainers(all, {{"--device", "cuda"}, {"--device", "cpu"}}, 1);
  const outcome master = all.master().finish();
  EXPECT_EQ(master.exit_code, 2);
  EXPECT_FINDS(master.err, "give all of them the same --device");
}

TEST_F(EmulatedCudaGpu, WhoJoinsComputesOnWhatTheJobFileSaysAndSaysSo) {
  model::checkpoint_folder folder;
  const std::string file = folder / "job.toml";
  model::set_content(file, "data = 'adult'\nsteps = 12\neval-every = 0\ndevice = 'cuda'\ndevices = '1,0'\n");
  gathered_run all(adult);
  all.join({"--as", "server", "--device", "cpu"});
  all.join({file, "--as", "trainer", "--count", "2"});
  std::string said;
  for (const outcome& one : all.finish_members(0)) said += one.err;
  EXPECT_EQ(all.master().finish().exit_code, 0);
  EXPECT_FINDS(said, "joined as trainer 0, 1 on CUDA devices 1, 0; waiting");
  EXPECT_FINDS(said, "joined as server 0; waiting");
}

TEST_F(EmulatedCudaGpu, TheCommandLinesDeviceTakesThePlaceOfAllThatTheFileSaysOfDevices) {
  model::checkpoint_folder folder;
  const std::string file = folder / "job.toml";
  model::set_content(file, "data = 'adult'\nsteps = 2\ndevice = 'cuda'\ndevices = '1'\nserver-device = 'cuda'\n");
  const outcome result = run({"train", file, "--device", "cpu"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err.find("CUDA"), std::string::npos) << result.err;
}

TEST_F(EmulatedCudaGpu, WhatStandsAgainstDevicesIsSaidWhereNobodyAskedForThem) {
  const args brief = {"train", "--data", "adult", "--steps", "2"};
  const std::string begin = "computing on the processor, as of --device auto: ";
  for (const auto& [cards, why] : {std::pair{"driver=12020", "the NVIDIA driver is too old"},
                                   {"capability=7.5", "no CUDA device has the compute capability 8.0"}}) {
    const outcome told = run(brief, with_cards(cards));
    EXPECT_EQ(told.exit_code, 0);
    EXPECT_FINDS(told.err, begin + why);
    EXPECT_EQ(run(with(brief, {"--device", "cpu"}), with_cards(cards)).err.find("processor"), std::string::npos);
  }
  EXPECT_EQ(run(brief, with_cards("devices=0")).err.find("processor"), std::string::npos);
  const outcome compared = run({"parity", reference_run("tutorial_sum.safetensors")}, with_cards("driver=12020"));
  EXPECT_FINDS(compared.err, begin);
}

}  // namespace
}  // namespace troupe::end_to_end::cuda_test
