// Goal: a run over several hosts trains the weights of one process, finds its addresses by itself, and ends when a host
// is cut off from the network. Method: three hosts in network namespaces, one of them in two networks; skipped without
// the right to make namespaces.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>
#include <regex>
#include <string>

#include "tests/hosts/host.hpp"
#include "tests/hosts/relay.hpp"
#include "tests/hosts/spread_run.hpp"
#include "tests/links/certificates.hpp"

namespace troupe::hosts::three_hosts_test {
namespace {

const args by_token = {};
const args soon = {"--dead-after", "1"};
const args tutorial = {"--data", "tutorial", "--epochs", "5", "--servers", "2", "--trainers", "2"};

constexpr const char* silent = R"(no byte came for (0\.[89]|1\.0) s)";

void expect_match(const std::string& text, const std::string& expected) {
  EXPECT_TRUE(std::regex_search(text, std::regex(expected))) << text << "\nshould match\n" << expected;
}

class ThreeHostsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_make_hosts()) GTEST_SKIP() << "skipped: needs CAP_NET_ADMIN";
    net = std::make_unique<three_hosts>();
  }

  /// A master on host a.
  std::unique_ptr<spread_run> lead(const args& job, const args& network) {
    return std::make_unique<spread_run>(job, network, &net->a, three_hosts::a_address);
  }

  /// Servers on host b, trainers on c and a.
  void join_from_everywhere(spread_run& run) {
    for (const host* on : {&net->b, &net->b}) run.join("server", {.on = on});
    for (const host* on : {&net->c, &net->a}) run.join("trainer", {.on = on});
  }

  std::string digest_of_three_hosts(const args& job, const args& network) {
    const auto run = lead(job, network);
    join_from_everywhere(*run);
    return run->finish();
  }

  std::unique_ptr<relay> relay_on(const host& where, const std::string& address, const links::endpoint& target) {
    const host::visit there(where);
    return std::make_unique<relay>(address, target);
  }

  /// Returns what all processes report when `receiver` is cut off while the run of `join_from_everywhere` trains.
  spread_run::failure cut_in_mid_run(const host& receiver) {
    const auto run = lead(endless, soon);
    join_from_everywhere(*run);
    run->wait_until_it_trains();
    net->cut(receiver);
    return run->finish_failed();
  }

  std::unique_ptr<three_hosts> net;
};

// -- recordings ------------------------------------------------------------------------

TEST_F(ThreeHostsTest, ADiagnosisHasWhatEveryHostHasRecorded) {
  std::string folder = testing::TempDir() + "troupe-hosts-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto records_in = [&](const std::string& name) { return args{"--trace-dir", folder + "/" + name}; };
  const auto run = lead(with(endless, records_in("a")), by_token);
  int member = 0;
  for (const host* on : {&net->b, &net->b})
    run->join("server", {.on = on, .options = records_in(std::to_string(++member))});
  for (const host* on : {&net->c, &net->a})
    run->join("trainer", {.on = on, .options = records_in(std::to_string(++member))});
  run->wait_until_it_trains();
  run->master().send(SIGUSR1);
  ASSERT_TRUE(run->master().wait_for_error("summary.txt")) << run->master().error();
  std::size_t rings = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + "/a"))
    if (entry.path().extension() == ".ring" && entry.path().parent_path() != folder + "/a") ++rings;
  EXPECT_EQ(rings, 5U) << "master, two servers, two trainers";
  const std::string line = line_with(run->master().error(), "a signal asked for it: ");
  EXPECT_NE(line.find(folder + "/a/diagnosis-"), std::string::npos) << line;
  run->master().send(SIGINT);
  run->finish();
  std::filesystem::remove_all(folder);
}

// -- runs that complete ---------------------------------------------------------------

TEST_F(ThreeHostsTest, ARunHasTheWeightsOfOneProcess) {
  EXPECT_EQ(digest_of_three_hosts(tutorial, by_token), digest_of_one_process(tutorial));
}

TEST_F(ThreeHostsTest, TheAdultJobHasTheWeightsOfOneProcess) {
  const args adult = {"--data", "adult", "--seed", "7", "--servers", "2", "--trainers", "2"};
  EXPECT_EQ(digest_of_three_hosts(adult, by_token), digest_of_one_process(adult));
}

/// Two replicas of two stages each, spread over both hosts: activations and buckets cross between them.
TEST_F(ThreeHostsTest, APipelineHasTheWeightsOfTheWholeNetworkInOneProcess) {
  const args adult = {"--data",    "adult", "--seed",     "7", "--steps",         "100",
                      "--servers", "2",     "--trainers", "2", "--micro-batches", "2"};
  const auto run = lead(with(adult, {"--pipeline", "2"}), by_token);
  for (const host* on : {&net->b, &net->b}) run->join("server", {.on = on});
  for (const host* on : {&net->c, &net->a, &net->a, &net->c}) run->join("trainer", {.on = on});
  EXPECT_EQ(run->finish(), digest_of_one_process(adult));
}

/// A stage's slices on one host or on two: the bits are the same.
TEST_F(ThreeHostsTest, ANetworkInStagesAndSlicesHasTheWeightsOfTheSlicesInOneProcess) {
  const args adult = {"--data",          "adult", "--seed",     "7",  "--steps",           "60",
                      "--hidden",        "16,8",  "--trainers", "1",  "--tensor-parallel", "2",
                      "--micro-batches", "2",     "--stages",   "0,3"};
  const args whole_stage = {"--data",          "adult", "--seed",     "7", "--steps",           "60",
                            "--hidden",        "16,8",  "--trainers", "1", "--tensor-parallel", "2",
                            "--micro-batches", "2"};
  const std::string expected = digest_of_one_process(whole_stage);
  const auto run = lead(with(adult, {"--pipeline", "2"}), by_token);
  run->join("server", {.on = &net->b});
  for (const host* on : {&net->c, &net->a, &net->a, &net->c}) run->join("trainer", {.on = on});
  EXPECT_EQ(run->finish(), expected);
  const auto apart = lead(whole_stage, by_token);
  apart->join("server", {.on = &net->b});
  for (const host* on : {&net->c, &net->a}) apart->join("trainer", {.on = on});
  EXPECT_EQ(apart->finish(), expected);
}

TEST_F(ThreeHostsTest, ARunWithoutTlsHasTheWeightsOfOneProcess) {
  EXPECT_EQ(digest_of_three_hosts(tutorial, {"--insecure"}), digest_of_one_process(tutorial));
}

TEST_F(ThreeHostsTest, ARunByCertificatesHasTheWeightsOfOneProcess) {
  const links::authority ours("ours");
  const links::tls_files files = ours.issue("everybody", 3600, 0, std::string("IP:") + three_hosts::a_address);
  const args tls = {"--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.ca};
  EXPECT_EQ(digest_of_three_hosts(tutorial, tls), digest_of_one_process(tutorial));
}

// -- addresses --------------------------------------------------------------------------

TEST_F(ThreeHostsTest, AHostInTwoNetworksIsReachedInTheOneThatOthersAreIn) {
  // In every role: it leads the run from all its addresses, serves, and trains.
  spread_run run(tutorial, by_token, &net->b, "0.0.0.0");
  const links::endpoint master{three_hosts::b_address, run.where().port};
  for (const host* on : {&net->b, &net->c}) run.join("server", {.on = on, .master = master});
  for (const host* on : {&net->b, &net->a}) run.join("trainer", {.on = on, .master = master});
  EXPECT_EQ(run.finish(), digest_of_one_process(tutorial));
}

TEST_F(ThreeHostsTest, AnAddressThatOthersCannotReachIsToldWithBothSidesAndWhatToDo) {
  const auto run = lead(tutorial, soon);
  run->join("server", {.on = &net->b});
  run->join("server", {.on = &net->b, .options = {"--advertise", three_hosts::b_lonely_address}});
  run->join("trainer", {.on = &net->c, .options = {"--count", "2"}});
  const auto told = run->finish_failed();
  const std::string expected = R"(server 1 \(host b, pid \d+\) cannot be reached at 10\.99\.0\.2:\d+ by )"
                               R"(the process of trainers 0, 1 \(host c, pid \d+\): .*--advertise)";
  expect_match(told.master, expected);
  for (const std::string& line : told.members) expect_match(line, expected);
}

TEST_F(ThreeHostsTest, ARelayThatIsAdvertisedIsWhereOthersReachAHost) {
  const auto before_b = relay_on(net->outside, three_hosts::outside_address, {three_hosts::b_address, 0});
  const auto run = lead(tutorial, by_token);
  run->join("server", {.on = &net->b, .options = {"--advertise", links::to_string(before_b->address())}});
  run->join("server", {.on = &net->a});
  run->join("trainer", {.on = &net->c, .options = {"--count", "2"}});
  EXPECT_EQ(run->finish(), digest_of_one_process(tutorial));
  EXPECT_GT(before_b->passed(way::there), 0U);
}

/// The numbers of 100,000 rows have three nonzero bytes out of eight. All other traffic is small: one number per bag.
TEST_F(ThreeHostsTest, IndicesTravelWithoutZeroBytes) {
  const args job = {"--data",       "synthetic", "--servers", "1", "--trainers", "1",  "--tables",     "1",
                    "--rows",       "100000",    "--dim",     "1", "--bag",      "64", "--batch-size", "256",
                    "--eval-every", "0",         "--steps",   "20"};
  const auto before_b = relay_on(net->outside, three_hosts::outside_address, {three_hosts::b_address, 0});
  const auto run = lead(job, by_token);
  run->join("server", {.on = &net->b, .options = {"--advertise", links::to_string(before_b->address())}});
  run->join("trainer", {.on = &net->c});
  EXPECT_EQ(run->finish(), digest_of_one_process(job));
  constexpr std::size_t indices = 20 * 256 * 64;
  const std::size_t passed = before_b->passed(way::there) + before_b->passed(way::back);
  EXPECT_GT(passed, 3 * indices);
  EXPECT_LT(passed, 4 * indices);
}

TEST_F(ThreeHostsTest, ATunnelToTheMasterTakesAnAddressForTheDataLinks) {
  const auto run = lead(tutorial, by_token);
  const auto tunnel = relay_on(net->c, "127.0.0.1", run->where());
  for (const host* on : {&net->b, &net->b}) run->join("server", {.on = on});
  run->join("trainer",
            {.on = &net->c, .options = {"--advertise", three_hosts::c_address}, .master = tunnel->address()});
  run->join("trainer", {.on = &net->a});
  EXPECT_EQ(run->finish(), digest_of_one_process(tutorial));
}

// -- hosts that are cut off ---------------------------------------------------------------

// All others name the lost process within the promised time; the one that is cut off reports that the master is gone.

TEST_F(ThreeHostsTest, AllNoticeThatAHostOfTrainersIsCutOff) {
  const auto told = cut_in_mid_run(net->c);
  const std::string blame = std::string(R"(trainer 0 \(host c, pid \d+\) lost its connection in step \d+: )") + silent;
  expect_match(told.master, blame);
  for (const std::size_t i : {0, 1, 3}) expect_match(told.members[i], blame);
  expect_match(told.members[2], std::string(R"(the master \(10\.77\.0\.1:\d+\) is gone in step \d+: )") + silent);
}

TEST_F(ThreeHostsTest, AllNoticeThatAHostOfServersIsCutOff) {
  const auto told = cut_in_mid_run(net->b);
  const std::string blame =
      std::string(R"(server [01] \(host b, pid \d+\) lost its connection in step \d+: )") + silent;
  expect_match(told.master, blame);
  for (const std::size_t i : {2, 3}) expect_match(told.members[i], blame);
  for (const std::size_t i : {0, 1})
    expect_match(told.members[i], std::string(R"(the master \(10\.77\.0\.1:\d+\) is gone in step \d+: )") + silent);
}

TEST_F(ThreeHostsTest, ABitThatIsFlippedOnAPlainLinkIsFoundByItsDigest) {
  const auto run = lead(endless, with(soon, {"--insecure"}));
  const auto between = relay_on(net->c, three_hosts::c_address, {three_hosts::b_address, 0});
  run->join("server", {.on = &net->b, .options = {"--advertise", links::to_string(between->address())}});
  run->join("server", {.on = &net->b});
  for (int i = 0; i < 2; ++i) run->join("trainer", {.on = &net->a});
  run->wait_until_it_trains();
  constexpr std::size_t bit_of_the_body = 24 * 8 + 100;
  between->spoil(way::there, {damage::kind::flip, bit_of_the_body});
  const auto told = run->finish_failed();
  EXPECT_TRUE(between->has_spoiled());
  // The trainer whose connection ends may report it first.
  expect_match(told.master,
               "server 0.*(a frame of \\d+ bytes came damaged: its bytes do not match their digest|"
               "its connection was (closed|reset))");
}

}  // namespace
}  // namespace troupe::hosts::three_hosts_test
