// Goal: `troupe devices` describes this machine, and its exit code says whether a CUDA device is usable.

#include <gtest/gtest.h>
#include <unistd.h>

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
  // There is either a device, or a reason why not.
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

/// Returns why CUDA is not usable; empty if it is. `program`: a program other than the build's.
std::string reason_of(const std::string& program) {
  launch how;
  how.program = program;
  return std::string(last_event(run({"devices", "--json"}, how), "devices").at("cuda").at("reason").as_string());
}

TEST(Devices, AreLookedForWithModulesThatAreInstalled) {
  if (!last_event(run({"devices", "--json"}), "devices").at("cuda").at("built").as_bool())
    GTEST_SKIP() << "skipped: built without the CUDA backend";
  const model::checkpoint_folder prefix;
  const std::string program = prefix.path() + "/bin/troupe";
  const std::string modules = prefix.path() + "/" TROUPE_LIBRARY_FOLDER "/troupe";
  std::filesystem::create_directories(prefix.path() + "/bin");
  std::filesystem::copy_file(TROUPE_PROGRAM, program);
  EXPECT_FINDS(reason_of(program), ", and not installed in " + modules + ";");

  std::filesystem::create_directories(modules);
  const std::string probe = "/libtroupe_cuda_probe.so";
  std::filesystem::copy_file(std::filesystem::path(TROUPE_PROGRAM).parent_path().string() + probe, modules + probe);
  EXPECT_EQ(reason_of(program), reason_of(TROUPE_PROGRAM));

  if (getuid() != 0) return;  // only root can give files away
  ASSERT_EQ(chown((modules + probe).c_str(), 65534, 65534), 0);
  EXPECT_FINDS(reason_of(program), "not installed in") << "a module of somebody else is used";
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
  EXPECT_FINDS(reason, "libtroupe_cuda_probe.so is not next to the program, in " + elsewhere.path());
}

}  // namespace
}  // namespace troupe::end_to_end::devices_test
