// Loading the backend's module: it is found, or the error gives the cause and a remedy.

#include "kernels/backend.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "kernels/devices.hpp"
#include "tests/kernels/child_process.hpp"

namespace troupe::kernels::backend_test {
namespace {

using test::child_process;

/// For child processes: prints the reports of the probe and the backend about device ASKED_DEVICE.
TEST(BackendChild, DISABLED_Asks) {
  std::cout << "reason: " << find_devices().reason << std::endl;
  const char* number = std::getenv("ASKED_DEVICE");
  try {
    const device& opened = cuda_backend().open(number != nullptr ? std::atoi(number) : 0);
    std::cout << "opened: " << opened.number() << std::endl;
  } catch (const device_error& error) {
    std::cout << "error: " << error.what() << std::endl;
  }
}

std::string ask(const std::string& environment) {
  return child_process("BackendChild.DISABLED_Asks", environment).output();
}

void expect_in_both(const std::string& environment, const std::string& words) {
  const std::string output = ask(environment);
  for (const std::string from : {"reason: ", "error: "}) {
    const std::size_t begin = output.find(from);
    ASSERT_NE(begin, std::string::npos) << output;
    const std::string line = output.substr(begin, output.find('\n', begin) - begin);
    EXPECT_NE(line.find(words), std::string::npos) << line;
  }
}

TEST(Backend, WithoutTheBackendTheErrorSaysSo) {
  if (find_devices().cuda_built) GTEST_SKIP() << "skipped: built with the CUDA backend";
  expect_in_both("", "built without the CUDA backend");
}

TEST(Backend, IsNextToEveryProgramOfTheBuild) {
  if (!find_devices().cuda_built) GTEST_SKIP() << "skipped: built without the CUDA backend";
  const std::string output = ask("");
  EXPECT_EQ(output.find("next to the program"), std::string::npos) << output;
}

TEST(Backend, AModuleThatIsMissingIsNamed) {
  expect_in_both("TROUPE_CUDA_MODULE=/nowhere/module.so", "/nowhere/module.so");
}

TEST(Backend, AFileThatIsNoModuleIsNamed) { expect_in_both("TROUPE_CUDA_MODULE=/etc/passwd", "/etc/passwd"); }

TEST(Backend, AModuleWithoutTheFunctionIsNamed) {
  expect_in_both("TROUPE_CUDA_MODULE=libc.so.6", "troupe_cuda_find_devices");
}

// -- cases that need an emulated driver -------------------------------------------------------------------------------

#define SKIP_WITHOUT_EMULATION() \
  if (std::getenv("TROUPE_CUDA_MODULE") == nullptr) GTEST_SKIP() << "skipped: needs the emulated driver"

TEST(BackendGpu, ADriverThatIsTooOldIsToldWithBothVersions) {
  SKIP_WITHOUT_EMULATION();
  expect_in_both("TROUPE_EMULATED_CUDA=driver=11060", "knows CUDA up to 11.6");
}

TEST(BackendGpu, AMissingDriverIsTold) {
  SKIP_WITHOUT_EMULATION();
  expect_in_both("TROUPE_EMULATED_CUDA=driver=0", "no NVIDIA driver is installed");
}

TEST(BackendGpu, AMissingDeviceIsTold) {
  SKIP_WITHOUT_EMULATION();
  expect_in_both("TROUPE_EMULATED_CUDA=devices=0", "no CUDA device");
}

TEST(BackendGpu, ADeviceTooOldForTheKernelsIsTold) {
  SKIP_WITHOUT_EMULATION();
  const std::string output = ask("TROUPE_EMULATED_CUDA=capability=7.5");
  EXPECT_NE(output.find("Emulated card 0 has 7.5"), std::string::npos) << output;
}

// -- with a device ----------------------------------------------------------------------------------------------------

#define SKIP_WITHOUT_DEVICE() \
  if (const device_report report = find_devices(); !report.cuda_usable) GTEST_SKIP() << "skipped: " << report.reason

TEST(BackendGpu, EveryDeviceIsOpenedOnce) {
  SKIP_WITHOUT_DEVICE();
  const int count = static_cast<int>(find_devices().devices.size());
  for (int number = 0; number < count; ++number) {
    device& opened = cuda_backend().open(number);
    EXPECT_EQ(opened.number(), number);
    EXPECT_EQ(&opened, &cuda_backend().open(number));
    EXPECT_FALSE(opened.uuid().empty());
    for (int other = 0; other < number; ++other) EXPECT_NE(opened.uuid(), cuda_backend().open(other).uuid());
    EXPECT_GT(opened.memory().total, 0u);
    EXPECT_LE(opened.memory().free, opened.memory().total);
  }
}

TEST(BackendGpu, ADeviceThatIsNotThereIsRefused) {
  SKIP_WITHOUT_DEVICE();
  for (const int number : {-1, static_cast<int>(find_devices().devices.size())}) {
    try {
      cuda_backend().open(number);
      ADD_FAILURE() << number;
    } catch (const device_error& error) {
      EXPECT_NE(std::string(error.what()).find("no CUDA device " + std::to_string(number)), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::backend_test
