// Users' programs on three hosts, and after losses: they train the same weights as in one process.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/child_process.hpp"
#include "model/checkpoint/inspect.hpp"
#include "tests/hosts/host.hpp"
#include "tests/read_file.hpp"
#include "tests/trace/temporary_folder.hpp"

namespace troupe::hosts::library_test {
namespace {

using args = std::vector<std::string>;

/// A process of an example, on a host or on this machine, which writes to a file.
class example {
 public:
  example(const std::string& name, const args& options, const std::string& file, const host* on = nullptr)
      : file_(file) {
    std::optional<host::visit> there;
    if (on != nullptr) there.emplace(*on);
    args arguments = {name, "--quiet"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    child_options how;
    how.out = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    how.variables = {"TROUPE_TOKEN=a token that one run's processes share"};
    auto started = child_process::start(std::string(TROUPE_EXAMPLES) + "/example_" + name, arguments, how);
    ::close(how.out);
    if (started) child_ = std::make_unique<child_process>(std::move(*started));
  }

  /// Returns the running processes that the child has started.
  std::vector<pid_t> children() const {
    std::ifstream listed(fmt::format("/proc/{0}/task/{0}/children", child_->pid()));
    return {std::istream_iterator<pid_t>(listed), std::istream_iterator<pid_t>()};
  }

  /// Waits for its end, and returns what it has printed.
  std::string finish() {
    if (!child_) return "it did not start";
    child_->wait();
    EXPECT_EQ(child_->exit_code(), 0);
    return read_file(file_);
  }

 private:
  std::string file_;
  std::unique_ptr<child_process> child_;
};

class LibraryHostsTest : public testing::TestWithParam<const char*> {};

TEST_P(LibraryHostsTest, AProgramPrintsWhatItPrintsInOneProcess) {
  if (!may_make_hosts()) GTEST_SKIP() << "skipped: needs CAP_NET_ADMIN";
  const trace::temporary_folder folder;
  const auto file = [&](int number) { return (folder.path() / std::to_string(number)).string(); };
  const std::string expected = example(GetParam(), {}, file(0)).finish();
  const three_hosts net;
  const std::string where = std::string(three_hosts::a_address) + ":7000";
  example leader(GetParam(), {"--listen", where}, file(1), &net.a);
  example server(GetParam(), {"--join", where, "--as", "server"}, file(2), &net.b);
  example first(GetParam(), {"--join", where, "--as", "trainer"}, file(3), &net.c);
  example second(GetParam(), {"--join", where, "--as", "trainer"}, file(4), &net.a);
  const std::string of_leader = leader.finish();
  server.finish();
  // Trainer 0's output comes before the leader's, whichever of the two processes has trainer 0.
  const std::string all = first.finish() + second.finish() + of_leader;
  if (std::string(GetParam()) == "hybrid")
    EXPECT_EQ(all.substr(0, all.find(' ')), expected.substr(0, expected.find(' ')));  // the rest is how long it took
  else
    EXPECT_EQ(all, expected);
}

/// Waits for a checkpoint of that step or a later one; returns false after a minute.
bool has_come_to(const std::string& folder, std::uint64_t step) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < give_up) {
    const auto steps = model::checkpoint_steps(folder);
    if (steps && !steps->empty() && steps->front() >= step) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(LibraryProgram, HasTheSameWeightsAfterTenKills) {
  const trace::temporary_folder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string expected = example("hybrid", {}, file("unbroken")).finish();
  const std::string saved = file("saved");
  example broken(
      "hybrid",
      {"--processes", "--save", saved, "--checkpoint-every", "10", "--restarts", "10", "--rejoin-timeout", "30"},
      file("broken"));
  constexpr std::uint64_t kills = 10;
  for (std::uint64_t kill = 1; kill <= kills; ++kill) {
    ASSERT_TRUE(has_come_to(saved, 40 * kill)) << "kill " << kill;
    const auto children = broken.children();
    ASSERT_FALSE(children.empty()) << "it has ended before kill " << kill;
    ::kill(children[kill % children.size()], SIGKILL);
  }
  const std::string told = broken.finish();
  EXPECT_EQ(told.substr(0, told.find(' ')), expected.substr(0, expected.find(' ')));  // the rest is how long it took
}

INSTANTIATE_TEST_SUITE_P(Examples, LibraryHostsTest, testing::Values("hybrid", "data_parallel", "custom_layer"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace troupe::hosts::library_test
