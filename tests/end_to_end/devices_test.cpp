// Goal: `troupe devices` describes this machine, and its exit code tells whether a CUDA device is usable.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/end_to_end/program.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::end_to_end::devices_test {
namespace {

TEST(Devices, AreReportedAsJson) {
  const outcome result = run({"devices", "--json"});
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(lines_of(result.out).size(), 1u);
  const auto devices = last_event(result, "devices");
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices.at("backends").at(0), "cpu");
  const auto& cuda = devices.at("cuda");
  EXPECT_TRUE(cuda.at("built").is_bool());
  // Either there is a device, or a reason why not.
  EXPECT_EQ(cuda.at("usable").as_bool(), cuda.at("reason").as_string().empty());
  EXPECT_EQ(cuda.at("usable").as_bool(), !cuda.at("devices").as_array().empty());
  EXPECT_EQ(result.exit_code, cuda.at("usable").as_bool() ? 0 : 2);
  EXPECT_GE(devices.at("cpu").at("cores").to_number<int>(), 1);
  EXPECT_FALSE(devices.at("cpu").at("name").as_string().empty());
}

TEST(Devices, AreReportedAsText) {
  const outcome result = run({"devices"});
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out.rfind("cpu ", 0), 0u) << result.out;
  const bool is_usable = result.out.find("cuda    not usable: ") == std::string::npos;
  EXPECT_EQ(result.exit_code, is_usable ? 0 : 2) << result.out;
}

TEST(Devices, AreLookedForWithModulesNextToTheProgramAndNowhereElse) {
  if (!last_event(run({"devices", "--json"}), "devices").at("cuda").at("built").as_bool())
    GTEST_SKIP() << "skipped: built without the CUDA backend";
  const model::checkpoint_folder elsewhere;
  launch how;
  how.program = elsewhere.path() + "/troupe";
  std::filesystem::copy_file(TROUPE_PROGRAM, how.program);
  const outcome result = run({"devices", "--json"}, how);
  EXPECT_EQ(result.exit_code, 2);
  const auto devices = last_event(result, "devices");
  const std::string reason(devices.at("cuda").at("reason").as_string());
  EXPECT_NE(reason.find("libtroupe_cuda_probe.so is not next to the program, in " + elsewhere.path()),
            std::string::npos)
      << reason;
}

}  // namespace
}  // namespace troupe::end_to_end::devices_test
