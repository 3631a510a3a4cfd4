// Method: folders that imitate /proc and /sys/fs/cgroup of several systems.

#include "base/control_group.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe {
namespace {

constexpr auto unlimited = std::numeric_limits<std::uint64_t>::max();

class ControlGroup : public testing::Test {
 protected:
  ControlGroup() {
    if (mkdtemp(root_.data()) == nullptr) throw std::runtime_error(root_ + ": cannot be made");
  }
  ~ControlGroup() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  void put(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text << '\n';
  }

  /// Creates a group of version 2.
  void put_v2(const std::string& folder, const std::string& limit, std::uint64_t used, std::uint64_t cached = 0) const {
    put(folder + "/memory.max", limit);
    put(folder + "/memory.current", std::to_string(used));
    put(folder + "/memory.stat", "anon 5\nfile 9\ninactive_file " + std::to_string(cached));
  }

  void put_v1(const std::string& folder, const std::string& limit, std::uint64_t used,
              const std::string& stat = "") const {
    put(folder + "/memory.limit_in_bytes", limit);
    put(folder + "/memory.usage_in_bytes", std::to_string(used));
    put(folder + "/memory.stat", "inactive_file 1\n" + stat);
    put(folder + "/memory.use_hierarchy", "1");
  }

  void put_process(const std::string& groups, const std::string& mounts) const {
    put("/proc/self/cgroup", groups);
    put("/proc/self/mountinfo", "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" + mounts);
  }

  std::vector<std::string> folders() const {
    std::vector<std::string> all;
    for (const control_group& one : memory_groups(root_)) all.push_back(one.folder.substr(root_.size()));
    return all;
  }

  std::uint64_t left() const { return memory_left(memory_groups(root_)); }

  std::string root_ = testing::TempDir() + "troupe-groups-XXXXXX";
};

using folders_of = std::vector<std::string>;

constexpr const char* v2_mount = "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate";
constexpr const char* v1_mounts =
    "31 22 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "32 22 0:28 / /sys/fs/cgroup/memory rw shared:11 master:2 - cgroup cgroup rw,memory";
constexpr const char* no_limit_v1 = "9223372036854771712";

TEST_F(ControlGroup, WithoutAnyThereIsNoLimit) {
  EXPECT_EQ(left(), unlimited);
  put_process("", "");
  EXPECT_EQ(left(), unlimited);
  EXPECT_EQ(killed_in(memory_groups(root_)), std::nullopt);
}

TEST_F(ControlGroup, TheLeastOfItsOwnAndAllAboveItIsLeft) {
  put_process("0::/user.slice/job.slice/run.scope", v2_mount);
  const std::string job = "/sys/fs/cgroup/user.slice/job.slice";
  put_v2(job + "/run.scope", "max", 100);
  put_v2(job, "1000", 700, 50);
  put_v2("/sys/fs/cgroup/user.slice", "5000", 1000);
  EXPECT_EQ(folders(), (folders_of{job + "/run.scope", job, "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"}));
  EXPECT_EQ(left(), 350u);
  put_v2("/sys/fs/cgroup/user.slice", "1200", 1000);
  EXPECT_EQ(left(), 200u);
  put_v2(job + "/run.scope", "90", 100);
  EXPECT_EQ(left(), 0u) << "it may use more than a limit that has been lowered";
}

TEST_F(ControlGroup, WhatTheKernelCanReclaimCountsAsFree) {
  put_process("0::/a", v2_mount);
  put_v2("/sys/fs/cgroup/a", "1000", 900);
  put("/sys/fs/cgroup/a/memory.stat", "anon 100\nactive_file 300\ninactive_file 200\nslab_reclaimable 40");
  EXPECT_EQ(left(), 640u);
  put("/sys/fs/cgroup/a/memory.high", "700");
  EXPECT_EQ(left(), 340u) << "beyond it the kernel takes pages back";
}

TEST_F(ControlGroup, OfVersion1HasItsLimitUnderItsOwnPath) {
  put_process("5:cpu,cpuacct:/other\n4:memory:/batch/job 7\n0::/", v1_mounts);
  put_v1("/sys/fs/cgroup/memory/batch/job 7", "1000", 600, "total_inactive_file 100\ntotal_active_file 50");
  put_v1("/sys/fs/cgroup/memory/batch", no_limit_v1, 4000);
  put_v1("/sys/fs/cgroup/memory", no_limit_v1, 9000);
  EXPECT_EQ(left(), 550u);
  put_v1("/sys/fs/cgroup/memory/batch/job 7", no_limit_v1, 600);
  EXPECT_EQ(left(), unlimited);
  put_v1("/sys/fs/cgroup/memory/batch", "4010", 4000);
  EXPECT_EQ(left(), 10u);
  put("/sys/fs/cgroup/memory/batch/memory.use_hierarchy", "0");
  EXPECT_EQ(left(), unlimited) << "without a hierarchy, groups above limit nothing";
}

TEST_F(ControlGroup, ALimitAboveWhatCanBeSeenIsInTheStatistics) {
  // A container of version 1: only its own group is mounted.
  put_process("4:memory:/docker/0123", "32 22 0:28 /docker/0123 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory");
  put_v1("/sys/fs/cgroup/memory", no_limit_v1, 600, "hierarchical_memory_limit 1000");
  EXPECT_EQ(folders(), folders_of{"/sys/fs/cgroup/memory"});
  EXPECT_EQ(left(), 400u);
}

TEST_F(ControlGroup, InANamespaceOfItsOwnIsTheRoot) {
  put_process("0::/", v2_mount);
  put_v2("/sys/fs/cgroup", "1000", 100);
  EXPECT_EQ(folders(), folders_of{"/sys/fs/cgroup"});
  EXPECT_EQ(left(), 900u);
}

TEST_F(ControlGroup, OfAnotherNamespaceIsJudgedByWhatCanBeSeen) {
  put_v2("/sys/fs/cgroup", "1000", 100);
  for (const char* path : {"0::/../elsewhere", "0::/host/path"}) {
    put_process(path, v2_mount);
    EXPECT_EQ(left(), 900u) << path;
  }
}

TEST_F(ControlGroup, BothVersionsCountWhereBothAreThere) {
  put_process("4:memory:/one\n0::/two",
              std::string(v1_mounts) + "\n33 22 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw");
  std::filesystem::create_directories(root_ + "/sys/fs/cgroup/unified/two");
  put_v1("/sys/fs/cgroup/memory/one", "1000", 100);
  EXPECT_EQ(left(), 900u);
  put_v2("/sys/fs/cgroup/unified/two", "500", 100);
  EXPECT_EQ(left(), 400u);
}

TEST_F(ControlGroup, MayBeMountedAnywhere) {
  put_process("0::/pod/a",
              "40 22 0:26 /system /mnt/other rw - cgroup2 cgroup2 rw\n"
              "41 22 0:26 /pod /mnt/my\\040groups rw - cgroup2 cgroup2 rw");
  put_v2("/mnt/my groups/a", "1000", 100);
  put_v2("/mnt/my groups", "800", 100);
  EXPECT_EQ(folders(), (folders_of{"/mnt/my groups/a", "/mnt/my groups"}));
  EXPECT_EQ(left(), 700u);
}

TEST_F(ControlGroup, TellsHowManyOfItsProcessesWereKilledForWantOfMemory) {
  put_process("0::/a/b", v2_mount);
  put_v2("/sys/fs/cgroup/a/b", "max", 1);
  put("/sys/fs/cgroup/a/memory.events", "oom 9\noom_kill 9");
  EXPECT_EQ(killed_in(memory_groups(root_)), std::nullopt) << "those above it count others, too";
  put("/sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 4\noom 3\noom_kill 2");
  EXPECT_EQ(killed_in(memory_groups(root_)), 2u);
  put_process("4:memory:/one", v1_mounts);
  put_v1("/sys/fs/cgroup/memory/one", "1000", 100);
  put("/sys/fs/cgroup/memory/one/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5");
  EXPECT_EQ(killed_in(memory_groups(root_)), 5u);
}

}  // namespace
}  // namespace troupe
