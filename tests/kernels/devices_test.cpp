// The report about the machine is consistent, with and without a GPU.

#include "kernels/devices.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "tests/kernels/child_process.hpp"

namespace troupe::kernels::devices_test {
namespace {

bool program_maps(const std::string& file) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(file) != std::string::npos) return true;
  }
  return false;
}

/// For a child that has not yet loaded CUDA.
TEST(DevicesChild, DISABLED_HasNothingOfCuda) {
  EXPECT_FALSE(program_maps("libtroupe_cuda"));
  EXPECT_FALSE(program_maps("libcuda"));
}

TEST(Devices, NothingOfCudaIsLoadedBeforeItIsAskedFor) {
  const std::string output = test::child_process("DevicesChild.DISABLED_HasNothingOfCuda", "").output();
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
}

TEST(Devices, AReasonIsGivenExactlyIfCudaIsNotUsable) {
  const device_report report = find_devices();
  EXPECT_EQ(report.cuda_usable, report.reason.empty()) << report.reason;
  EXPECT_EQ(report.cuda_usable, !report.devices.empty());
  EXPECT_TRUE(report.cuda_built || !report.cuda_usable);
}

TEST(Devices, TheBackendThatWasBuiltIsFoundAndLoaded) {
  const device_report report = find_devices();
  if (!report.cuda_built) GTEST_SKIP() << "skipped: built without the CUDA backend";
  EXPECT_TRUE(program_maps("libtroupe_cuda")) << report.reason;
}

TEST(Devices, TheProcessorIsDescribed) {
  const device_report report = find_devices();
  EXPECT_FALSE(report.cpu_name.empty());
  EXPECT_GE(report.cpu_cores, 1u);
  EXPECT_LE(report.cpu_cores, std::thread::hardware_concurrency());
  ASSERT_FALSE(report.instruction_sets.empty());
  EXPECT_EQ(report.cpu_target, report.instruction_sets.front());
  for (const std::string& name : report.instruction_sets) EXPECT_NE(name, "Unknown");
}

TEST(Devices, AskingTwiceGivesTheSameAnswer) {
  const device_report once = find_devices();
  const device_report again = find_devices();
  EXPECT_EQ(once.reason, again.reason);
  EXPECT_EQ(once.devices.size(), again.devices.size());
  EXPECT_EQ(once.instruction_sets, again.instruction_sets);
  EXPECT_EQ(once.cpu_name, again.cpu_name);
}

TEST(DevicesGpu, EachDeviceHasANameMemoryAndACapability) {
  const device_report report = find_devices();
  if (!report.cuda_usable) GTEST_SKIP() << "skipped: no CUDA device (" << report.reason << ")";
  for (const cuda_device& found : report.devices) {
    EXPECT_FALSE(found.name.empty());
    EXPECT_GE(found.memory_bytes, std::uint64_t{1} << 30) << found.name;
    EXPECT_GE(found.compute_major, 5) << found.name;
    EXPECT_GE(found.compute_minor, 0) << found.name;
  }
}

}  // namespace
}  // namespace troupe::kernels::devices_test
