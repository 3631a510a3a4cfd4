// Goal: `--device auto` chooses the device by the job's sizes, in one process, several, and over hosts, reports its
// choice in a line, and resumes there. Method: Adult's small steps, and the same job with large batches, on real or
// emulated devices.

#include <gtest/gtest.h>

#include "tests/end_to_end/cuda.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::cuda_auto_test {
namespace {

/// 82.1 million multiplications in a trainer's step; `adult`'s batches need 2.6 million.
const args large = {"--data", "adult", "--steps", "2", "--eval-every", "0", "--batch-size", "4096"};
constexpr const char* on_processor = "computing on the processor, as of --device auto: 2.6 million multiplications";
constexpr const char* by_size = "as of --device auto: 82.1 million multiplications";

/// Runs a job, expects `said` among its lines, and returns its digest.
std::string train_and_say(const args& options, const std::string& said, const launch& how = {}) {
  const outcome result = run(with({"train", "--json"}, options), how);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_FINDS(result.err, said);
  return digest_of(result);
}

TEST_F(CudaGpu, SmallStepsAreTheProcessors) {
  const std::string processors = train_on_cards(with(adult, {"--device", "cpu"})).digest;
  EXPECT_EQ(train_and_say(adult, on_processor), processors);
  EXPECT_EQ(train_and_say(with(adult, {"--device", "auto", "--processes"}), on_processor), processors);
}

TEST_F(CudaGpu, LargeStepsAreTheDevices) {
  const std::string devices = train_on_cards(with(large, {"--device", "cuda"})).digest;
  EXPECT_EQ(train_and_say(large, "2 trainers on CUDA device"), devices);
  EXPECT_EQ(train_and_say(with(large, {"--device", "auto"}), by_size), devices);
}

TEST_F(EmulatedCudaGpu, LargeStepsAreTheDevicesInProcessesToo) {
  const launch two = with_cards("devices=2");
  EXPECT_EQ(train_and_say(with(large, {"--processes"}), by_size, two),
            train_on_cards(with(large, {"--device", "cuda", "--processes"}), two).digest);
}

TEST_F(CudaGpu, TablesThatAreAskedForOnADeviceStayThere) {
  EXPECT_EQ(train_and_say(with(adult, {"--server-device", "cuda"}),
                          "1 server on CUDA device 0; trainers compute on the processor, as of --device auto: 2.6"),
            train_on_cards(with(adult, {"--device", "cpu", "--server-device", "cuda"})).digest);
}

TEST_F(CudaGpu, DevicesThatAreNamedAreAskedFor) {
  EXPECT_EQ(train_and_say(with(adult, {"--devices", "0"}), "2 trainers on CUDA device 0, several on one"),
            train_on_cards(with(adult, {"--device", "cuda", "--devices", "0"})).digest);
}

TEST_F(CudaGpu, APrecisionOfDevicesChoosesThem) {
  train_and_say(with(adult, {"--matmul-precision", "tf32"}), "only CUDA devices multiply in the --matmul-precision");
}

TEST_F(CudaGpu, AResumedRunGoesOnWhereItWas) {
  struct half_run {
    const char* batch;
    const char* said;
    const char* device;
  };
  for (const half_run& one : {half_run{"128", on_processor, "cpu"}, half_run{"4096", by_size, "cuda"}}) {
    SCOPED_TRACE(one.device);
    const model::checkpoint_folder folder;
    const std::string half = folder.path() + "/half";
    const args job = {"--data", "adult", "--eval-every", "0", "--batch-size", one.batch};
    train_and_say(with(job, {"--steps", "2", "--save", half}), one.said);
    EXPECT_EQ(train_and_say({"--resume", half, "--steps", "4"}, one.said),
              train_on_cards(with(job, {"--steps", "4", "--device", one.device})).digest);
  }
}

struct joined {
  std::string digest;
  std::string said;  ///< output of server and trainers
};

/// Runs a job whose members join without a device option.
joined join_without_a_word(const args& job) {
  gathered_run all(job);
  all.join_as("server");
  all.join({"--as", "trainer", "--count", "2"});
  joined made;
  for (const outcome& one : all.finish_members(0)) made.said += one.err;
  made.digest = digest_of(all.master().finish());
  return made;
}

TEST_F(EmulatedCudaGpu, WhoJoinsComputesWhereTheMastersJobSays) {
  const joined small = join_without_a_word(adult);
  EXPECT_EQ(small.digest, train_on_cards(with(adult, {"--device", "cpu"})).digest);
  for (const char* who : {"trainer 0, 1", "server 0"})
    EXPECT_FINDS(small.said, std::string("joined as ") + who + " on the processor, as of --device auto: 2.6 million");

  const joined big = join_without_a_word(large);
  EXPECT_EQ(big.digest, train_on_cards(with(large, {"--device", "cuda"})).digest);
  EXPECT_FINDS(big.said, "joined as trainer 0, 1 on CUDA devices 0, 1, as of --device auto: 82.1 million");
  EXPECT_FINDS(big.said, "joined as server 0 on CUDA device 0, as of --device auto: 82.1 million");
}

}  // namespace
}  // namespace troupe::end_to_end::cuda_auto_test
