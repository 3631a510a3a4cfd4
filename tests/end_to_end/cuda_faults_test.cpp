// Goal: a run that cannot work on CUDA devices is refused in one line, and a failing device ends the run with its
// cause. Method: as in cuda_test.cpp.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <sstream>

#include "kernels/devices.hpp"
#include "model/random.hpp"
#include "tests/end_to_end/cuda.hpp"
#include "tests/model/made_checkpoint.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end::cuda_faults_test {
namespace {

TEST_F(EmulatedCudaGpu, NobodyHangsInTheCollectiveOfAKilledTrainer) {
  gathered_run all({"--data", "adult", "--epochs", "1000000"});
  all.join({"--as", "server", "--device", "cpu"});
  all.join({"--as", "trainer", "--device", "cuda", "--devices", "0"});
  all.join({"--as", "trainer", "--device", "cuda", "--devices", "1"});
  ASSERT_TRUE(all.master().wait_for_output(trains)) << all.master().error();
  const pid_t victim = process_of(all.master(), "trainer 1");
  all.set_aside(victim);
  ::kill(victim, SIGKILL);
  for (const outcome& left : all.finish_members(1)) EXPECT_FINDS(left.err, "trainer 1");
  EXPECT_EQ(all.master().finish().exit_code, 1);
}

// -- failures during a run ---------------------------------------------------------

/// Two trainers, each on its own card, with NCCL between them, and a server whose table is on the first card.
const args brief = {"--data", "adult", "--steps", "3", "--eval-every", "0", "--device", "cuda"};

launch with_fault(const std::string& fault) { return with_cards("devices=2," + fault); }

/// Counts the calls of an unbroken run in one process, by function.
std::map<std::string, std::uint64_t> calls_of(const args& options, std::string& digest) {
  const model::checkpoint_folder folder;
  digest = train_on_cards(options, with_fault("counts=" + (folder / "calls"))).digest;
  std::map<std::string, std::uint64_t> calls;
  for (const std::string& file : model::entries_of(folder.path())) {
    std::istringstream lines(read_file(folder / file));
    std::string function;
    for (std::uint64_t count = 0; lines >> function >> count;) calls[function] += count;
  }
  return calls;
}

/// Expects that a run ended with one line that names the device, the actor and step if there are any, and a remedy.
std::string expect_device_error(const outcome& result) {
  EXPECT_TRUE(result.in_time);
  EXPECT_EQ(result.signal, 0) << result.err;
  EXPECT_EQ(result.exit_code, 1) << result.err;
  std::string line = line_with(result.err, "troupe: error: ");
  const bool is_of_actor = line.find(", step ") != line.npos;
  const bool is_of_beginning = line.find("troupe: error: CUDA device ") != line.npos;  // before there are actors
  EXPECT_TRUE(is_of_actor || is_of_beginning) << line;
  for (const char* part : {"CUDA device", "; "}) EXPECT_FINDS(line, part);
  return line;
}

/// Expects that a fault ends the run with this error, or changes no result.
void expect_named_or_harmless(const std::string& fault, const args& options, const std::string& digest) {
  SCOPED_TRACE(fault);
  launch how = with_fault(fault);
  how.environment.emplace_back("ASAN_OPTIONS", "detect_leaks=0");  // a failed device cannot free everything
  const outcome result = run(with({"train", "--json", "--quiet"}, options), how);
  if (result.exit_code == 0) {
    EXPECT_EQ(digest_of(result), digest) << result.err;
  } else if (result.exit_code == 2) {  // requests for devices report that CUDA does not know them
    EXPECT_TRUE(line_with(result.err, "troupe: error: ").find(" device") != std::string::npos) << result.err;
  } else {
    expect_device_error(result);
  }
}

/// Fails one call of each function, and random calls of any function: each fault alone, once or lasting.
TEST_F(EmulatedCudaGpu, AnyCallThatFailsIsToldOrChangesNothing) {
  std::string digest;
  const auto calls = calls_of(brief, digest);
  ASSERT_GT(calls.size(), 20U);
  model::random_sequence random(model::mix(1));
  std::uint64_t all = 0;
  for (const auto& [function, count] : calls) {
    all += count;
    expect_named_or_harmless(fmt::format("fail={}@{}", function, 1 + random.below(count)), brief, digest);
  }
  for (const char* error : {"", ":cudaErrorECCUncorrectable"})
    for (int i = 0; i < 10; ++i)
      expect_named_or_harmless(fmt::format("fail=any@{}{}", 1 + random.below(all), error), brief, digest);
}

struct failing_device {
  const char* name;
  const char* fault;
  args parts;  ///< texts expected in the error
  args placed = {"--device", "cuda"};
};

void PrintTo(const failing_device& one, std::ostream* out) { *out << one.name; }

class FailingCudaGpu : public EmulatedCudaGpu, public testing::WithParamInterface<failing_device> {};

/// During the run, in one process and in several; resuming from the newest checkpoint gives the unbroken run's weights.
TEST_P(FailingCudaGpu, EndsTheRunWithItsNameAndWithoutASpoiltCheckpoint) {
  const args& placed = GetParam().placed;
  const std::string whole = train_on_cards(with(adult, placed)).digest;
  for (const args& spread : {args{}, args{"--processes", "--request-timeout", "2"}}) {
    SCOPED_TRACE(testing::PrintToString(spread));
    const model::checkpoint_folder folder;
    const std::string saved = folder / "saved";
    const args saving = {"--save", saved, "--checkpoint-every", "1", "--restarts", "0", "--quiet", "--json"};
    const args options = with(with(with(with({"train"}, adult), placed), saving), spread);
    const outcome result = run(options, with_fault(GetParam().fault));
    const std::string line = expect_device_error(result);
    EXPECT_FINDS(line, ", step ");
    for (const std::string& part : GetParam().parts) EXPECT_FINDS(line, part);
    EXPECT_EQ(std::string(last_event(result, "error").at("code").as_string()), "device") << line;
    EXPECT_EQ(run({"checkpoint", "verify", saved}).exit_code, 0);
    EXPECT_EQ(train_on_cards(with({"--resume", saved, "--steps", "12"}, placed)).digest, whole);
  }
}

const std::vector<failing_device> failing = {
    {"illegal_address", "fail=kernel@100/1:cudaErrorIllegalAddress", {"trainer 1, step ", "CUDA device 1: "}},
    {"memory_errors",
     "fail=cudaMemcpyAsync@30/1:cudaErrorECCUncorrectable",
     {"trainer 1, step ", "CUDA device 1: cudaMemcpyAsync: uncorr"}},
    {"lost", "lose=1@900", {"trainer 1, step ", "CUDA device 1: "}},
    {"one_call", "fail=cudaStreamWaitEvent@30/1", {"CUDA device 1: cudaStreamWaitEvent: unknown error"}},
    {"of_nccl", "fail=ncclAllReduce@5/1", {"allreduce", "CUDA device 1: ncclAllReduce: unhandled cuda error"}},
    {"of_a_server",
     "fail=kernel@30:cudaErrorIllegalAddress",
     {"CUDA device 0: ", "an illegal memory access"},  // in one process, a trainer's call may see it first
     {"--device", "cpu", "--server-device", "cuda"}},
};
INSTANTIATE_TEST_SUITE_P(Faults, FailingCudaGpu, testing::ValuesIn(failing),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(EmulatedCudaGpu, AnyCallOfAProcessThatFailsIsToldOrChangesNothing) {
  const args options = with(brief, {"--processes"});
  const std::string digest = train_on_cards(options).digest;
  constexpr std::uint64_t calls_max = 500;  // about as many as one process makes on device 1
  model::random_sequence random(model::mix(2));
  for (const char* error : {"", ":cudaErrorLaunchFailure"})
    for (int i = 0; i < 6; ++i)
      expect_named_or_harmless(fmt::format("fail=any@{}/1{}", 1 + random.below(calls_max), error), options, digest);
}

TEST_F(EmulatedCudaGpu, MemoryThatIsFullInTheMidstOfARunEndsItWithWhatIsMissing) {
  for (const args& spread : {args{}, args{"--processes"}}) {
    SCOPED_TRACE(testing::PrintToString(spread));
    const outcome result = run(with(with({"train", "--quiet"}, brief), spread),
                               with_fault("fail=cudaMalloc@12/1:cudaErrorMemoryAllocation"));
    const std::string line = expect_device_error(result);
    for (const char* part : {"the memory of CUDA device 1 is too small", "are needed", "--batch-size"})
      EXPECT_FINDS(line, part);
  }
}

/// Only the group's own deadline ends it: all ranks have joined, and none of their streams continues.
TEST_F(EmulatedCudaGpu, AnAllReduceThatHangsEndsTheRun) {
  const outcome result =
      run(with({"train", "--quiet", "--json", "--processes", "--request-timeout", "2"}, brief), with_fault("hang=2"));
  const std::string line = expect_device_error(result);
  for (const char* part :
       {"allreduce, step 2: the all-reduce of bucket 0 has not ended on CUDA device ", " within 2 s"})
    EXPECT_FINDS(line, part);
  EXPECT_EQ(std::string(last_event(result, "error").at("code").as_string()), "device") << line;
}

// -- refusals ------------------------------------------------------------------------

struct refused_case {
  const char* name;
  const char* cards;
  args options;
  std::string says;
};

void PrintTo(const refused_case& one, std::ostream* out) { *out << one.name; }

class RefusedCudaGpu : public EmulatedCudaGpu, public testing::WithParamInterface<refused_case> {};

TEST_P(RefusedCudaGpu, InOneLine) {
  const outcome result = run(with({"train", "--device", "cuda"}, GetParam().options), with_cards(GetParam().cards));
  const std::string line = expect_error(result, 2);
  EXPECT_FINDS(line, GetParam().says);
}

const args large = {"--data", "synthetic", "--rows", "1000000", "--dim", "64", "--steps", "3"};
const args wide_bags = {"--data", "synthetic", "--rows", "100",          "--dim", "32",      "--tables",
                        "8",      "--bag",     "26",     "--batch-size", "4096",  "--steps", "3"};
// A batch needs 1 MiB besides 32 MiB of workspace; an evaluation of 1,024 rows needs 17 MiB more.
const args small_batches = {"--data", "synthetic", "--rows", "100",     "--dim", "16",         "--batch-size",
                            "8",      "--hidden",  "4096",   "--steps", "3",     "--trainers", "1"};
const std::vector<refused_case> refused = {
    {"no_room_for_a_step", "devices=1,memory_mib=100", wide_bags, "batches and workspace"},
    {"no_room_for_an_evaluation", "devices=1,memory_mib=48", with(small_batches, {"--eval-every", "1"}),
     "batches and workspace 4"},
    {"no_device", "devices=0", {}, "--device cuda: no CUDA device"},
    {"old_driver", "driver=12020", {}, "driver is too old"},
    {"old_card", "capability=7.5", {}, "has 7.5"},
    {"no_such_number",
     "devices=2",
     {"--devices", "0,2"},
     "--devices 2: there is no such CUDA device; this machine has 2"},
    {"table_larger_than_the_card", "devices=1,memory_mib=100", large, "tables with their optimizer's state 244.1 MiB"},
    {"full_card", "devices=1,memory_mib=20", with(large, {"--server-device", "cpu"}), "of its 20.0 MiB are free"},
    {"processes_on_one_card", "devices=1", {"--processes"}, "--processes: 2 trainers on 1 CUDA device"},
};
INSTANTIATE_TEST_SUITE_P(Settings, RefusedCudaGpu, testing::ValuesIn(refused),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_F(EmulatedCudaGpu, ARunThatDoesNotEvaluateNeedsNoRoomForIt) {
  const outcome result = run(with({"train", "--device", "cuda", "--eval-every", "0"}, small_batches),
                             with_cards("devices=1,memory_mib=48"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(EmulatedCudaGpu, AProcessFindsItsCardFullBeforeItAllocates) {
  const outcome result = run(with({"train", "--device", "cuda", "--server-device", "cpu", "--processes"}, large),
                             with_cards("devices=2,memory_mib=20"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_FINDS(line_with(result.err, "troupe: error: trainer "), "of its 20.0 MiB are free") << result.err;
}

TEST_F(CudaGpu, ANanInABf16RunStopsIt) {
  const outcome result = run(with({"train", "--device", "cuda", "--matmul-precision", "bf16", "--quiet",
                                   "--dense-optimizer", "sgd", "--dense-lr", "1000000"},
                                  adult));
  const std::string line = expect_error(result, 1);
  EXPECT_TRUE(line.find("is NaN") != line.npos || line.find("is Inf") != line.npos) << line;
  EXPECT_FINDS(line, "step ");
}

/// Data whose row 175 makes a dense gradient overflow, but not the loss, and a job that reaches it in step 44.
args with_an_overflow(const model::checkpoint_folder& folder) {
  std::string rows = "n0,c0,y\n";
  for (int i = 0; i < 400; ++i)
    rows += fmt::format("{},{},{}\n", i == 350 ? "3e38" : fmt::format("0.{}", i % 9), i % 7, i % 2);
  model::set_content(folder / "rows.csv", rows);
  return with(
      description_of("--batch-size 4 --dim 6 --loss mse --epochs 2 --shuffle-rows 1"),
      {"--data", "csv:" + (folder / "rows.csv"), "--columns",
       R"([{"name":"n0","kind":"numeric"},{"name":"c0","kind":"categorical","rows":10},{"name":"y","kind":"label"}])"});
}

TEST_F(CudaGpu, NoCheckpointIsTakenOfAStepWithANan) {
  model::checkpoint_folder folder;
  const args options = with_an_overflow(folder);
  std::vector<std::string> kept;
  for (const char* device : {"cpu", "cuda"}) {
    const std::string saved = folder / device;
    const outcome result =
        run(with({"train", "--save", saved, "--checkpoint-every", "1", "--quiet", "--device", device}, options));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    kept.push_back(run({"checkpoint", "list", saved}).out);
    EXPECT_EQ(run({"checkpoint", "verify", saved}).exit_code, 0);
  }
  // A checkpoint that is being written when step 44 fails may stay unfinished.
  for (const std::string& list : kept) {
    const int newest = std::stoi(lines_of(list).at(1));
    EXPECT_LT(newest, 44) << list;
    EXPECT_GE(newest, 41) << list;
  }
}

// -- without a device, always ------------------------------------------------------------------

TEST(WithoutCuda, TheProgramSaysWhatIsMissing) {
  if (kernels::find_devices().cuda_usable) GTEST_SKIP() << "skipped: there is a CUDA device";
  const std::string line = expect_error(run({"train", "--device", "cuda"}), 2);
  EXPECT_FINDS(line, "--device cuda: " + kernels::find_devices().reason);
  const outcome told = run({"devices", "--json"});
  EXPECT_EQ(told.exit_code, 2);
  const auto cuda = last_event(told, "devices").at("cuda").as_object();
  EXPECT_FALSE(cuda.at("usable").as_bool());
  EXPECT_EQ(std::string(cuda.at("reason").as_string()), kernels::find_devices().reason);
}

}  // namespace
}  // namespace troupe::end_to_end::cuda_faults_test
