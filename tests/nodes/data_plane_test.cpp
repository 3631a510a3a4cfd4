// Which data links two processes make: only with the certificates that the master has seen, only as long as a link is
// missing, and through shared memory within a host.

#include "cluster/nodes/data_plane.hpp"

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "cluster/links/tls_context.hpp"
#include "tests/links/certificates.hpp"
#include "tests/links/raw_socket.hpp"
#include "tests/value_of.hpp"

namespace troupe::nodes::data_plane_test {
namespace {

constexpr std::uint64_t run_number = 5;
constexpr auto timeout = std::chrono::seconds(60);  // for a broken build, never to be reached

bool is_refused(const links::endpoint& where) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = links::raw_socket::loopback(where.port);
  const bool refused =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  ::close(socket);
  return refused;
}

/// Returns how many anonymous memory files are mapped in this process.
int count_shared_memory() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:") != std::string::npos ? 1 : 0;
  return count;
}

class DataPlaneTest : public testing::Test {
 protected:
  /// The processes of a server and of a trainer with `credentials`; the master has seen a certificate of each.
  struct member {
    links::credentials mine;
    std::string certificate;
  };

  void start(const member& server, const member& trainer) {
    for (const member* one : {&server, &trainer}) {
      const auto number = static_cast<std::uint32_t>(planes_.size());
      planes_.push_back(
          std::make_unique<data_plane>(system_, data_plane::options{.mine = one->mine, .links = {}, .handshakes = {}}));
      const auto where = value_of(planes_.back()->listen({"127.0.0.1", 0}));
      where_.push_back(where);
      peers_.push_back({number,
                        0,
                        number == 0 ? "server 0" : "trainer 0",
                        number == 1,
                        {0},
                        links::to_string(where),
                        one->certificate});
    }
    for (std::uint32_t number = 0; number < 2; ++number) planes_[number]->expect({run_number, number, 0}, peers_, {});
  }

  /// Makes the links of one process; returns the error.
  std::future<std::string> connect(std::uint32_t number) {
    const auto settled = std::make_shared<std::promise<std::string>>();
    planes_[number]->connect([settled](const std::string& problem) { settled->set_value(problem); });
    return settled->get_future();
  }

  static std::string outcome_of(std::future<std::string>& settled) {
    if (settled.wait_for(timeout) != std::future_status::ready) return "no outcome";
    return settled.get();
  }

  /// Returns the error of the trainer, which dials.
  std::string problem_of_trainer() {
    const auto server = connect(0);
    auto trainer = connect(1);
    return outcome_of(trainer);
  }

  member certified(const std::string& name) const {
    const links::tls_files files =
        ours_.issue(name, 3600, 0, "");  // names do not matter: addresses come from the master
    return {{token_, *links::make_tls(files)}, links::fingerprint_of(files)};
  }
  member by_token() const { return {{token_, *links::make_tls(links::expanded_key(token_))}, ""}; }

  const std::string token_ = "a token that tests share";
  const links::authority ours_{"ours"};
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  std::vector<std::unique_ptr<data_plane>> planes_;
  std::vector<links::endpoint> where_;
  std::vector<msg::peer_node> peers_;
};

TEST_F(DataPlaneTest, LinksLeadToThoseWithTheCertificatesThatTheMasterSaw) {
  start(certified("a"), certified("b"));
  EXPECT_EQ(problem_of_trainer(), "");
}

TEST_F(DataPlaneTest, AServerWithAnotherCertificateOfTheSameAuthorityIsRefused) {
  member server = certified("a");
  server.certificate = certified("c").certificate;
  start(server, certified("b"));
  const std::string problem = problem_of_trainer();
  EXPECT_NE(problem.find("its certificate is not the one that it had when it joined"), std::string::npos) << problem;
}

TEST_F(DataPlaneTest, ATrainerWithAnotherCertificateOfTheSameAuthorityIsRefused) {
  member trainer = certified("b");
  trainer.certificate = certified("c").certificate;
  start(certified("a"), trainer);
  const std::string problem = problem_of_trainer();
  EXPECT_NE(problem.find("refused: trainer 0 had another certificate when it joined"), std::string::npos) << problem;
}

TEST_F(DataPlaneTest, WhomTheMasterSawWithoutACertificateIsNotBelievedWithAny) {
  member server = certified("a");
  server.certificate.clear();
  start(server, certified("b"));
  const std::string problem = problem_of_trainer();
  EXPECT_NE(problem.find("server 0 has joined without a certificate"), std::string::npos) << problem;
}

TEST_F(DataPlaneTest, ThePortsAreClosedWhenAllLinksAreThere) {
  start(by_token(), by_token());
  for (const links::endpoint& where : where_) EXPECT_FALSE(is_refused(where));
  auto server = connect(0);
  auto trainer = connect(1);
  EXPECT_EQ(outcome_of(server), "");
  EXPECT_EQ(outcome_of(trainer), "");
  for (const links::endpoint& where : where_) EXPECT_TRUE(is_refused(where)) << links::to_string(where);
}

TEST_F(DataPlaneTest, ProcessesOfOneHostShareMemoryUnderTlsToo) {
  const int before = count_shared_memory();
  start(by_token(), by_token());
  auto server = connect(0);
  auto trainer = connect(1);
  EXPECT_EQ(outcome_of(server), "");
  EXPECT_EQ(outcome_of(trainer), "");
  // Each side maps its own memory and the peer's, which the link has offered.
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  while (count_shared_memory() < before + 4 && std::chrono::steady_clock::now() < give_up)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(count_shared_memory(), before + 4);
}

}  // namespace
}  // namespace troupe::nodes::data_plane_test
