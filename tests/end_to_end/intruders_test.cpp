// Goal: a process that reaches the master's port but does not belong to the run does no harm, and both sides report
// what is wrong. Method: members with wrong tokens and certificates, and sockets that send arbitrary bytes; each time
// the run still completes with good members.

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "cluster/links/frame.hpp"
#include "cluster/links/handshake_role.hpp"
#include "cluster/nodes/handshake_info.hpp"
#include "tests/end_to_end/several.hpp"
#include "tests/links/certificates.hpp"
#include "tests/links/raw_socket.hpp"

namespace troupe::end_to_end::intruders_test {
namespace {

const args short_job = {"--data", "tutorial", "--steps", "10", "--servers", "1", "--trainers", "1"};

args tls_options(const links::tls_files& files) {
  return {"--tls-cert", files.certificate, "--tls-key", files.key, "--tls-ca", files.ca};
}

bool ends(links::raw_socket& socket) {
  return comes_true([&] { return !socket.hear(); });
}

class Intruders : public testing::Test {
 protected:
  /// Expects that a member is refused, and what both sides report.
  void expect_refusal(gathered_run& several, const args& options, const launch& how, int code,
                      const std::string& they_say, const std::string& master_says) {
    const outcome refused = run(with({"join", several.where(), "--as", "trainer"}, options), how);
    EXPECT_EQ(refused.exit_code, code);
    EXPECT_FINDS(line_with(refused.err, "error: "), they_say) << refused.err;
    ASSERT_TRUE(several.master().wait_for_error("was not accepted: ")) << several.master().error();
    const std::string line = line_with(several.master().error(), "was not accepted: ");
    EXPECT_FINDS(line, master_says);
  }

  /// Expects that the run completes with its usual result.
  void expect_completes(gathered_run& several) {
    several.join_all(1, 1);
    EXPECT_EQ(several.finish(), digest_of(run(with({"train", "--json"}, short_job))));
  }

  const links::authority ours_{"ours"};
  const links::authority others_{"others"};
};

// -- tokens ---------------------------------------------------------------------------

TEST_F(Intruders, WithAnotherTokenAreToldSo) {
  gathered_run several(short_job);
  expect_refusal(several, {}, with_token("a token of quite another run"), 1, "has another token", "has another token");
  expect_completes(several);
}

/// A peer that was never admitted has recorded nothing, so the error names no trace.
TEST_F(Intruders, AreToldOfNoTraceOfTheirs) {
  const std::string line =
      expect_error(run({"join", "127.0.0.1:1", "--as", "server", "--join-timeout", "0"}, with_token()), 1);
  EXPECT_FINDS(line, "Connection refused");
}

TEST_F(Intruders, WithoutATokenAreToldWhereToPutOne) {
  ::unsetenv("TROUPE_TOKEN");
  for (const args& command :
       {args{"master", "--listen", "127.0.0.1:0"}, args{"join", "127.0.0.1:1", "--as", "server"}}) {
    const std::string line = expect_error(run(command), 2);
    EXPECT_FINDS(line, "TROUPE_TOKEN");
    EXPECT_FINDS(line, "--token-file");
  }
}

TEST_F(Intruders, CannotReadTheTokenFromAFileThatIsNotTheOwnersAlone) {
  const std::string file = write_file("token", std::string(run_token) + "\n");
  ::chmod(file.c_str(), S_IRUSR | S_IWUSR | S_IRGRP);
  const std::string line = expect_error(run({"master", "--listen", "127.0.0.1:0", "--token-file", file}), 2);
  EXPECT_FINDS(line, file);
  EXPECT_FINDS(line, "chmod 600");
  ::chmod(file.c_str(), S_IRUSR | S_IWUSR);
  gathered_run several(short_job, {"--token-file", file}, {});
  expect_completes(several);
}

// -- TLS --------------------------------------------------------------------------------

TEST_F(Intruders, DoNotGetBetweenProcessesWithCertificates) {
  gathered_run several(short_job, tls_options(ours_.issue("node")));
  expect_completes(several);
}

TEST_F(Intruders, WithAnotherAuthoritysCertificateAreToldSo) {
  gathered_run several(short_job, tls_options(ours_.issue("master")));
  expect_refusal(several, tls_options(others_.issue("node")), with_token(), 1, "certificate", "certificate");
  expect_completes(several);
}

TEST_F(Intruders, WithACertificateThatHasExpiredAreToldSo) {
  const links::tls_files expired = ours_.issue("late", -60);
  const std::string line =
      expect_error(run(with({"join", "127.0.0.1:1", "--as", "server"}, tls_options(expired)), with_token()), 2);
  EXPECT_FINDS(line, expired.certificate);
  EXPECT_FINDS(line, "expired");
}

TEST_F(Intruders, WithoutACertificateAreNotLetIn) {
  gathered_run several(short_job, tls_options(ours_.issue("master")));
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = links::raw_socket::loopback(several.address().port);
  ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> nobody(SSL_new(context.get()), SSL_free);
  SSL_set_fd(nobody.get(), socket);
  SSL_connect(nobody.get());
  EXPECT_TRUE(several.master().wait_for_error("was not accepted: "));
  EXPECT_FINDS(line_with(several.master().error(), "was not accepted: "), "certificate") << several.master().error();
  ::close(socket);
  expect_completes(several);
}

TEST_F(Intruders, InPlainTextAreToldThatTlsIsSpoken) {
  for (const args& how : {args{}, tls_options(ours_.issue("master"))}) {
    gathered_run several(short_job, how);
    expect_refusal(several, {"--insecure"}, with_token(), 1, "uses TLS, this side does not", "does not use TLS");
    expect_completes(several);
  }
}

TEST_F(Intruders, WithTlsAreToldThatPlainTextIsSpoken) {
  gathered_run several(short_job, {"--insecure"});
  // The master receives the first bytes of TLS, or a reset before it reads them: it names TLS in both cases.
  expect_refusal(several, {}, with_token(), 1, "does not use TLS", "uses TLS");
  expect_completes(several);
}

TEST_F(Intruders, WithTheTokenAloneAreToldThatCertificatesAreWanted) {
  gathered_run several(short_job, tls_options(ours_.issue("master")));
  expect_refusal(several, {}, with_token(), 1, "uses certificates, this side the token alone",
                 "uses the token alone, this side certificates too");
  expect_completes(several);
}

TEST_F(Intruders, WithACertificateAreToldThatTheTokenAloneIsWanted) {
  gathered_run several(short_job);
  expect_refusal(several, tls_options(ours_.issue("node")), with_token(), 1,
                 "uses the token alone, this side certificates too", "uses certificates, this side the token alone");
  expect_completes(several);
}

TEST_F(Intruders, WithACertificateAndAnotherTokenAreToldSo) {
  gathered_run several(short_job, tls_options(ours_.issue("master")));
  expect_refusal(several, tls_options(ours_.issue("node")), with_token("a token of quite another run"), 1,
                 "has another token", "has another token");
  expect_completes(several);
}

TEST_F(Intruders, InTheMastersPlaceNeedItsNameInTheirCertificate) {
  gathered_run several(with(short_job, tls_options(ours_.issue("master", 3600, 0, "DNS:master.example"))), {});
  const args mine = tls_options(ours_.issue("node", 3600, 0, ""));
  expect_refusal(several, mine, with_token(), 1, "its certificate is not for 127.0.0.1", "does not trust this side's");
  for (const char* role : {"server", "trainer"})
    several.join(with({"--as", role, "--tls-name", "master.example"}, mine));
  EXPECT_EQ(several.finish(), digest_of(run(with({"train", "--json"}, short_job))));
}

TEST_F(Intruders, DoNotGetBetweenProcessesThatEachHaveACertificate) {
  // Each has its own certificate; the master announces it to the others.
  gathered_run several(with(short_job, tls_options(ours_.issue("master"))), {});
  for (const char* role : {"server", "trainer"})
    several.join(with({"--as", role}, tls_options(ours_.issue(role, 3600, 0, ""))));
  EXPECT_EQ(several.finish(), digest_of(run(with({"train", "--json"}, short_job))));
}

TEST_F(Intruders, AreNotLetInByOptionsThatContradictEachOther) {
  const links::tls_files files = ours_.issue("node");
  const auto error_of = [](const args& more) {
    return expect_error(run(with({"join", "127.0.0.1:1", "--as", "server"}, more), with_token()), 2);
  };
  EXPECT_NE(
      error_of(with(tls_options(files), {"--insecure"})).find("--insecure: does without TLS, for which --tls-cert"),
      std::string::npos);
  EXPECT_FINDS(error_of({"--tls-name", "a"}), "--tls-name: is the name in a certificate, which is missing");
  EXPECT_FINDS(error_of({"--tls-cert", files.certificate, "--tls-ca", files.ca}), "--tls-key is missing");
  EXPECT_FINDS(expect_error(run({"train", "--tls"}), 2), "--tls: is for runs with --processes");
}

TEST_F(Intruders, CannotReadTheKeyFromAFileThatIsNotTheOwnersAlone) {
  const links::tls_files files = ours_.issue("node");
  ::chmod(files.key.c_str(), S_IRUSR | S_IWUSR | S_IRGRP);
  const std::string line =
      expect_error(run(with({"join", "127.0.0.1:1", "--as", "server"}, tls_options(files)), with_token()), 2);
  EXPECT_FINDS(line, "--tls-key " + files.key);
  EXPECT_FINDS(line, "chmod 600");
}

TEST_F(Intruders, ThatCouldGuessTheTokenAreWarnedOf) {
  const std::string weak = "0123456789abcdef";
  const std::string warning = "troupe: warning: the token may be guessed: it has 16 characters and 16 different ones";
  for (const args& command : {args{"status", "127.0.0.1:1"}, args{"stop", "127.0.0.1:1"},
                              args{"join", "127.0.0.1:1", "--as", "server", "--join-timeout", "0"},
                              args{"master", "--listen", "192.0.2.1:0", "--data", "tutorial"},
                              args{"train", "--processes", "--data", "tutorial", "--steps", "5"}}) {
    const outcome warned = run(command, with_token(weak));
    EXPECT_FINDS(warned.err, warning) << command[0] << ": " << warned.err;
    EXPECT_EQ(warned.err.find(weak), std::string::npos) << warned.err;
  }
  EXPECT_EQ(run({"status", "127.0.0.1:1"}, with_token()).err.find("warning"), std::string::npos);
}

// -- bytes of any kind -------------------------------------------------------------------

TEST_F(Intruders, ThatSpeakAnotherProtocolAreShownInTheLog) {
  gathered_run several(short_job);
  links::raw_socket browser = links::raw_socket::to(several.address());
  browser.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(several.master().wait_for_error("was not accepted: ")) << several.master().error();
  EXPECT_FINDS(line_with(several.master().error(), "was not accepted: "), "GET / HTTP");
  EXPECT_TRUE(ends(browser));
  expect_completes(several);
}

TEST_F(Intruders, ThatAreManyAreCountedInsteadOfShownOneByOne) {
  gathered_run several(short_job);
  for (int i = 0; i < 20; ++i) {
    links::raw_socket browser = links::raw_socket::to(several.address());
    browser.say("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ASSERT_TRUE(ends(browser));
  }
  several.join_all(1, 1);
  const outcome done = several.master().finish();
  EXPECT_EQ(done.exit_code, 0);
  const auto lines = lines_of(done.err);
  const auto shown = std::ranges::count_if(
      lines, [](const std::string& line) { return line.starts_with("troupe: a connection was not accepted: "); });
  EXPECT_EQ(shown, 5) << done.err;
  line_with(done.err, "troupe: 15 more within 60 s, the last: a connection was not accepted: 127.0.0.1:");
  several.finish_members(0);
}

TEST_F(Intruders, ThatNeverSpeakKeepNobodyElseOut) {
  gathered_run several(short_job);
  std::vector<links::raw_socket> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(links::raw_socket::to(several.address()));
  expect_completes(several);
}

/// Speaks as a node until the handshake is over.
result<links::hello> shake_hands(links::raw_socket& socket) {
  const auto me = links::connector_role(run_token, nodes::handshake_info("node", "a-session-of-no-node"));
  for (links::handshake_step step = me->begin({});;) {
    socket.say(step.send);
    if (step.outcome) return *step.outcome;
    comes_true([&] { return !socket.hear() || socket.received().size() >= step.want; });
    if (socket.received().size() < step.want) return failure(fault_kind::lost, "the master has hung up");
    auto& bytes = socket.received();
    const std::vector<std::byte> wanted(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(step.want));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(step.want));
    step = me->feed(wanted);
  }
}

class IntrudersWithTheToken : public Intruders {
 protected:
  IntrudersWithTheToken() {
    const auto done = shake_hands(socket_);
    EXPECT_TRUE(done) << done.error().message;
  }

  // Data after the handshake are read the same way with and without TLS.
  gathered_run several_{short_job, {"--insecure"}};
  links::raw_socket socket_ = links::raw_socket::to(several_.address());
};

TEST_F(IntrudersWithTheToken, CannotMakeTheMasterWaitForAFrameOfFourGibibytes) {
  const links::frame_header_image image = links::image_of({links::link::first_user_kind, std::uint64_t{4} << 30, 0});
  socket_.say(std::span<const std::byte>(image));
  EXPECT_TRUE(ends(socket_));
  EXPECT_TRUE(several_.master().wait_for_error("announced a frame of 4294967296 bytes, the limit is "))
      << several_.master().error();
  expect_completes(several_);
}

TEST_F(IntrudersWithTheToken, CannotMakeTheMasterWaitForAFrameThatNoTunnelSends) {
  const links::frame_header_image image =
      links::image_of({links::link::first_user_kind, (std::uint64_t{64} << 10) + 1, 0});
  socket_.say(std::span<const std::byte>(image));
  EXPECT_TRUE(ends(socket_));
  EXPECT_TRUE(several_.master().wait_for_error("announced a frame of 65537 bytes, the limit is 65536"))
      << several_.master().error();
  expect_completes(several_);
}

TEST_F(IntrudersWithTheToken, CannotMakeTheMasterTakeAMessageOfTwoGibibytes) {
  // The actor system's header: 32 bytes; the second four are the length, big-endian.
  std::array<std::byte, 32> header{};
  header[4] = std::byte{0x80};
  const links::frame_header_image image =
      links::image_of({links::link::first_user_kind, header.size(), troupe::digest_of(header)});
  socket_.say(std::span<const std::byte>(image));
  socket_.say(std::span<const std::byte>(header));
  EXPECT_TRUE(ends(socket_));
  EXPECT_TRUE(several_.master().wait_for_error("announced a message of 2147483648 bytes, the limit is "))
      << several_.master().error();
  expect_completes(several_);
}

TEST_F(IntrudersWithTheToken, AreGoneAfterAFrameThatIsNoMessage) {
  const std::string junk =
      "nothing that an actor system says to another, and long enough for its first header .........";
  const auto body = std::as_bytes(std::span(junk));
  const links::frame_header_image image =
      links::image_of({links::link::first_user_kind, junk.size(), troupe::digest_of(body)});
  socket_.say(std::span<const std::byte>(image));
  socket_.say(junk);
  EXPECT_TRUE(ends(socket_));
  expect_completes(several_);
}

TEST_F(IntrudersWithTheToken, CannotTakeTheSessionOfAnotherConnection) {
  links::raw_socket second = links::raw_socket::to(several_.address());
  const auto refused = shake_hands(second);
  ASSERT_FALSE(refused);
  const std::string why = "its session a-session-of-no-node is that of another connection";
  EXPECT_FINDS(refused.error().message, why);
  EXPECT_TRUE(several_.master().wait_for_error(why)) << several_.master().error();
  expect_completes(several_);
}

TEST_F(IntrudersWithTheToken, MayLeaveWithoutAWord) {
  socket_.reset();
  expect_completes(several_);
}

}  // namespace
}  // namespace troupe::end_to_end::intruders_test
