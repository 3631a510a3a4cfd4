// Failing devices: an error names the device, the call, CUDA's message and its kind, and lasts if the device's does.
// Runs in children, whose emulated devices fail as configured (tests/emulated_cuda/settings.hpp).

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/devices.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/child_process.hpp"

namespace troupe::kernels::test::device_faults_test {
namespace {

using reason = device_error::reason;

/// Runs the disabled test `name` on devices with these faults.
void expect_in_child(const std::string& name, const std::string& faults) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: not the emulated CUDA";
  const std::string output =
      child_process("DeviceFaultsGpu.DISABLED_" + name, "TROUPE_EMULATED_CUDA=devices=2," + faults).output();
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
}

void expect_error(const std::function<void()>& call, reason why, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "no error: " << words.front();
  } catch (const device_error& error) {
    EXPECT_EQ(error.why(), why) << error.what();
    for (const std::string& one : words)
      EXPECT_NE(std::string(error.what()).find(one), std::string::npos) << one << " in " << error.what();
  }
}

/// Numbers on a device, and a stream.
struct numbers_on {
  explicit numbers_on(int device) : where(cuda_backend().open(device)), on(where.make_stream()) {}

  device& where;
  std::unique_ptr<stream> on;
  std::shared_ptr<std::byte> memory = where.allocate(sizeof(float));
  std::shared_ptr<std::byte> staging = where.allocate_staging(sizeof(float));

  float* there() const { return reinterpret_cast<float*>(memory.get()); }
  void fill(float value) const { on->fill(1, value, there()); }
  void fetch() const { on->download(there(), staging.get(), sizeof(float)); }
  float value() const {
    fetch();
    on->synchronize();
    return *reinterpret_cast<float*>(staging.get());
  }
};

/// One call fails on a device that otherwise works.
TEST(DeviceFaultsGpu, DISABLED_OneCall) {
  const numbers_on one(0);
  one.fill(1);
  EXPECT_EQ(one.value(), 1);
  expect_error([&] { one.fetch(); }, reason::failed, {"CUDA device 0: cudaMemcpyAsync: unknown error; ", "nvidia-smi"});
  one.fill(2);
  EXPECT_EQ(one.value(), 2);
}

TEST(DeviceFaultsGpu, ACallThatFailsIsNamedAndTheNextOneWorks) { expect_in_child("OneCall", "fail=cudaMemcpyAsync@2"); }

/// The second launch on device 1 fails.
TEST(DeviceFaultsGpu, DISABLED_AKernel) {
  const numbers_on works(0);
  const numbers_on fails(1);
  const auto other = fails.where.make_stream();
  fails.fill(1);
  EXPECT_EQ(fails.value(), 1);
  fails.fill(2);  // accepted: the error comes when it runs
  const std::string told = "an illegal memory access was encountered; a kernel failed";
  expect_error([&] { fails.on->synchronize(); }, reason::failed, {"CUDA device 1: cudaStreamSynchronize: " + told});
  expect_error([&] { fails.on->synchronize(); }, reason::failed, {told});
  expect_error([&] { fails.fill(3); }, reason::failed, {told});
  expect_error([&] { fails.fetch(); }, reason::failed, {told});
  expect_error([&] { other->record(); }, reason::failed, {told});
  expect_error([&] { fails.where.allocate(1 << 20); }, reason::failed, {told});
  expect_error([&] { fails.where.make_stream(); }, reason::failed, {told});
  works.fill(4);
  EXPECT_EQ(works.value(), 4);
}

TEST(DeviceFaultsGpu, AKernelsErrorComesAsItRunsAndStays) {
  expect_in_child("AKernel", "fail=kernel@2/1:cudaErrorIllegalAddress");
}

/// Device 1 is lost while its stream waits for device 0, which itself waits for nothing.
TEST(DeviceFaultsGpu, DISABLED_WaitsForNobody) {
  const numbers_on first(0);
  const numbers_on second(1);
  const auto group = cuda_backend().connect(cuda_backend().make_communicator_id(),
                                            std::vector<device*>{&first.where, &second.where}, 0, 2);
  while (group->poll() == communicator::state::busy) std::this_thread::yield();
  float* const buffers[] = {first.there(), second.there()};
  stream* const streams[] = {first.on.get(), second.on.get()};
  group->all_reduce(buffers, 1, streams);
  while (group->poll() == communicator::state::busy) std::this_thread::yield();
  const auto end = second.on->record();
  EXPECT_FALSE(end->is_over()) << "the sum hangs";
  std::thread waits([&] { expect_error([&] { end->wait(); }, reason::failed, {"CUDA device 1", "ECC"}); });
  bool told = false;
  for (int i = 0; i < 1000 && !told; ++i) {
    try {
      second.where.memory();
    } catch (const device_error&) {
      told = true;
    }
  }
  EXPECT_TRUE(told);
  waits.join();
  EXPECT_EQ(group->poll(), communicator::state::failed);
  EXPECT_EQ(group->why(), reason::failed);
  EXPECT_NE(group->error().find("CUDA device 1: "), std::string::npos) << group->error();
  EXPECT_FALSE(first.on->record()->is_over()) << "its sum waits for the other device";
  group->abort();
  first.on->synchronize();
  EXPECT_EQ(first.where.memory().total > 0, true);
}

TEST(DeviceFaultsGpu, AFailedDeviceLetsTheHostGoOn) {
  expect_in_child("WaitsForNobody", "hang=1,fail=cudaMemGetInfo@500/1:cudaErrorECCUncorrectable");
}

TEST(DeviceFaultsGpu, DISABLED_Lost) {
  const numbers_on works(0);
  expect_error(
      [] {
        const numbers_on lost(1);
        for (int i = 0; i < 100; ++i) lost.fill(1);
        lost.value();
      },
      reason::failed, {"CUDA device 1: ", "busy or unavailable", "nvidia-smi, or choose another one"});
  expect_error([] { numbers_on(1); }, reason::failed, {"CUDA device 1: ", "busy or unavailable"});
  works.fill(1);
  EXPECT_EQ(works.value(), 1);
}

TEST(DeviceFaultsGpu, ALostDeviceAnswersNothingElse) { expect_in_child("Lost", "lose=1@20"); }

TEST(DeviceFaultsGpu, DISABLED_Full) {
  const numbers_on one(0);
  for (int i = 0; i < 2; ++i)
    expect_error([&] { one.where.allocate(1 << 20); }, reason::memory,
                 {"the memory of CUDA device 0 is too small: 1 MiB more are needed", "--batch-size"});
  one.fill(1);
  EXPECT_EQ(one.value(), 1);
}

TEST(DeviceFaultsGpu, MemoryThatOthersTakeIsToldAsTooLittle) {
  expect_in_child("Full", "fail=cudaMalloc@3:cudaErrorMemoryAllocation");
}

TEST(DeviceFaultsGpu, DISABLED_Nccl) {
  const numbers_on first(0);
  const numbers_on second(1);
  const auto group = cuda_backend().connect(cuda_backend().make_communicator_id(),
                                            std::vector<device*>{&first.where, &second.where}, 0, 2);
  while (group->poll() == communicator::state::busy) std::this_thread::yield();
  float* const buffers[] = {first.there(), second.there()};
  stream* const streams[] = {first.on.get(), second.on.get()};
  expect_error([&] { group->all_reduce(buffers, 1, streams); }, reason::failed,
               {"CUDA device 1: ncclAllReduce: unhandled cuda error", "NCCL_DEBUG=INFO"});
}

TEST(DeviceFaultsGpu, ACallOfNcclThatFailsIsNamed) { expect_in_child("Nccl", "fail=ncclAllReduce@1/1"); }

}  // namespace
}  // namespace troupe::kernels::test::device_faults_test
