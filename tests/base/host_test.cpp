#include "base/host.hpp"

#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::host_test {
namespace {

TEST(Host, HasTheNameThatTheKernelHas) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  EXPECT_EQ(host_name(), kernel.nodename);
}

TEST(Host, HasOneBoot) {
  EXPECT_EQ(boot_id().size(), 36U);
  EXPECT_EQ(boot_id(), boot_id());
}

TEST(Host, KnowsWhichProcessesAreThere) {
  EXPECT_TRUE(is_alive(static_cast<std::uint32_t>(::getpid())));
  EXPECT_TRUE(is_alive(1)) << "one that may not be signalled is there as well";
  EXPECT_FALSE(is_alive(0));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(is_alive(static_cast<std::uint32_t>(child)));
}

}  // namespace
}  // namespace troupe::host_test
