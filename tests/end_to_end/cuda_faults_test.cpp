// Goal: what cannot work on CUDA devices is refused in one line, and what fails there ends the run with its cause.
// Method: as in cuda_test.cpp.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>

#include "kernels/devices.hpp"
#include "tests/end_to_end/cuda.hpp"
#include "tests/model/made_checkpoint.hpp"

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
  for (const outcome& left : all.finish_members(1))
    EXPECT_NE(left.err.find("trainer 1"), std::string::npos) << left.err;
  EXPECT_EQ(all.master().finish().exit_code, 1);
}

// -- what cannot work ------------------------------------------------------------------------

struct refused_case {
  const char* name;
  const char* cards;
  words options;
  std::string says;
};

void PrintTo(const refused_case& one, std::ostream* out) { *out << one.name; }

class RefusedCudaGpu : public EmulatedCudaGpu, public testing::WithParamInterface<refused_case> {};

TEST_P(RefusedCudaGpu, InOneLine) {
  const outcome result = run(with({"train", "--device", "cuda"}, GetParam().options), with_cards(GetParam().cards));
  const std::string line = expect_error(result, 2);
  EXPECT_NE(line.find(GetParam().says), std::string::npos) << line;
}

const words large = {"--data", "synthetic", "--rows", "1000000", "--dim", "64", "--steps", "3"};
const words wide_bags = {"--data", "synthetic", "--rows", "100",          "--dim", "32",      "--tables",
                         "8",      "--bag",     "26",     "--batch-size", "4096",  "--steps", "3"};
const std::vector<refused_case> refused = {
    {"no_room_for_a_step", "devices=1,memory_mib=100", wide_bags, "batches and workspace"},
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

TEST_F(EmulatedCudaGpu, AProcessFindsItsCardFullBeforeItAllocates) {
  const outcome result = run(with({"train", "--device", "cuda", "--server-device", "cpu", "--processes"}, large),
                             with_cards("devices=2,memory_mib=20"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(line_with(result.err, "troupe: error: trainer ").find("of its 20.0 MiB are free"), std::string::npos)
      << result.err;
}

TEST_F(CudaGpu, ANanInABf16RunStopsIt) {
  const outcome result = run(with({"train", "--device", "cuda", "--matmul-precision", "bf16", "--quiet",
                                   "--dense-optimizer", "sgd", "--dense-lr", "1000000"},
                                  adult));
  const std::string line = expect_error(result, 1);
  EXPECT_TRUE(line.find("is NaN") != line.npos || line.find("is Inf") != line.npos) << line;
  EXPECT_NE(line.find("step "), std::string::npos) << line;
}

/// Data of which row 175 makes a dense gradient overflow where the loss does not, and what trains on it: in step 44.
words with_an_overflow(const model::checkpoint_folder& folder) {
  std::string rows = "n0,c0,y\n";
  for (int i = 0; i < 400; ++i)
    rows += fmt::format("{},{},{}\n", i == 350 ? "3e38" : fmt::format("0.{}", i % 9), i % 7, i % 2);
  model::set_content(folder / "rows.csv", rows);
  return {
      "--data",
      "csv:" + (folder / "rows.csv"),
      "--columns",
      R"([{"name":"n0","kind":"numeric"},{"name":"c0","kind":"categorical","rows":10},{"name":"y","kind":"label"}])",
      "--batch-size",
      "4",
      "--dim",
      "6",
      "--loss",
      "mse",
      "--epochs",
      "2",
      "--shuffle-rows",
      "1"};
}

TEST_F(CudaGpu, NoCheckpointIsTakenOfAStepWithANan) {
  model::checkpoint_folder folder;
  const words options = with_an_overflow(folder);
  std::vector<std::string> kept;
  for (const char* device : {"cpu", "cuda"}) {
    const std::string saved = folder / device;
    const outcome result =
        run(with({"train", "--save", saved, "--checkpoint-every", "1", "--quiet", "--device", device}, options));
    EXPECT_EQ(result.exit_code, 1) << result.err;
    kept.push_back(run({"checkpoint", "list", saved}).out);
    EXPECT_EQ(run({"checkpoint", "verify", saved}).exit_code, 0);
  }
  const auto last_step = [](const std::string& list) { return list.substr(list.rfind('\n', list.size() - 2) + 1, 12); };
  EXPECT_EQ(last_step(kept[1]), last_step(kept[0])) << kept[0] << kept[1];
}

// -- without a device, always ------------------------------------------------------------------

TEST(WithoutCuda, TheProgramSaysWhatIsMissing) {
  if (kernels::find_devices().cuda_usable) GTEST_SKIP() << "skipped: there is a CUDA device";
  const std::string line = expect_error(run({"train", "--device", "cuda"}), 2);
  EXPECT_NE(line.find("--device cuda: " + kernels::find_devices().reason), std::string::npos) << line;
  const outcome told = run({"devices", "--json"});
  EXPECT_EQ(told.exit_code, 2);
  const auto cuda = last_event(told, "devices").at("cuda").as_object();
  EXPECT_FALSE(cuda.at("usable").as_bool());
  EXPECT_EQ(std::string(cuda.at("reason").as_string()), kernels::find_devices().reason);
}

}  // namespace
}  // namespace troupe::end_to_end::cuda_faults_test
