// Where the live page's address is reported, and what admits a browser.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>

#include "tests/end_to_end/program.hpp"
#include "tests/end_to_end/traced.hpp"

namespace troupe::end_to_end::page_test {
namespace {

constexpr const char* secret = "a-token-of-the-owners-own";

class ServedPage : public testing::Test {
 protected:
  ServedPage() {
    EXPECT_EQ(run(with(small, {"--steps", "5", "--trace", "full", "--trace-dir", trace_.path()})).exit_code, 0);
  }

  args serve(const args& more = {}) const { return with({"trace", "serve", trace_.path()}, more); }

  /// The printed address, once the page is served.
  static std::string address(program& serving) {
    EXPECT_TRUE(serving.wait_for_output("\n")) << serving.error();
    return serving.output();
  }

  temporary_trace trace_;
};

TEST_F(ServedPage, TakesItsTokenFromAFileOfItsOwner) {
  const std::string file = write_file("page-token", std::string(secret) + "\n");
  ::chmod(file.c_str(), S_IRUSR | S_IWUSR | S_IROTH);
  EXPECT_NE(expect_error(run(serve({"--token-file", file})), 2).find("chmod 600"), std::string::npos);
  ::chmod(file.c_str(), S_IRUSR | S_IWUSR);
  program serving(serve({"--token-file", file}));
  EXPECT_TRUE(address(serving).ends_with(std::string("/?token=") + secret + "\n")) << serving.output();
  EXPECT_EQ(serving.error(), "");
  serving.send(SIGTERM);
  serving.finish();
}

TEST_F(ServedPage, TakesItsTokenFromTheVariable) {
  launch how;
  how.environment = {{"TROUPE_PAGE_TOKEN", secret}};
  program serving(serve(), how);
  EXPECT_TRUE(address(serving).ends_with(std::string("/?token=") + secret + "\n")) << serving.output();
  serving.send(SIGTERM);
  serving.finish();
}

TEST_F(ServedPage, WarnsOfATokenThatAllUsersCanRead) {
  program serving(serve({"--token", secret}));
  EXPECT_TRUE(address(serving).ends_with(std::string("/?token=") + secret + "\n")) << serving.output();
  EXPECT_TRUE(serving.wait_for_error("--token-file FILE")) << serving.error();
  serving.send(SIGTERM);
  serving.finish();
}

TEST_F(ServedPage, RefusesATokenThatIsNoneWithoutShowingIt) {
  launch how;
  how.environment = {{"TROUPE_PAGE_TOKEN", "half; secret"}};
  const std::string line = expect_error(run(serve(), how), 2);
  EXPECT_FINDS(line, "TROUPE_PAGE_TOKEN: a token of 12 bytes");
  EXPECT_EQ(line.find("half"), std::string::npos) << line;
  const std::string both = expect_error(run(serve({"--token", secret, "--token-file", "x"})), 2);
  EXPECT_FINDS(both, "--token: goes without --token-file");
}

TEST(RunPage, TellsItsAddressToWhoWantsNoProgress) {
  const temporary_trace folder;
  launch how;
  how.environment = {{"TROUPE_PAGE_TOKEN", secret}};
  const outcome quiet = run(with(small, {"--steps", "5", "--page", "--quiet", "--trace-dir", folder.path()}), how);
  EXPECT_EQ(quiet.exit_code, 0) << quiet.err;
  const std::string line = line_with(quiet.err, "the run can be watched at http://127.0.0.1:");
  EXPECT_TRUE(line.ends_with(std::string("/?token=") + secret)) << line;
}

}  // namespace
}  // namespace troupe::end_to_end::page_test
