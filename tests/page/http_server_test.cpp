// The server, as seen by clients with the token, without it, and by attackers.

#include "page/http_server.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <stdexcept>

#include "tests/page/raw_client.hpp"
#include "tests/value_of.hpp"

namespace troupe::page::http_server_test {
namespace {

constexpr const char* token = "0123456789abcdef";

http_response echo(const http_request& request) {
  if (request.path == "/throws") throw std::runtime_error("out of luck");
  return http_response::of(200, "text/plain", fmt::format("{}|{}", request.path, request.text("x")));
}

class HttpServer : public testing::Test {
 protected:
  void start(http_server::options how = {}) {
    how.token = token;
    auto made = value_of(http_server::start(how, echo));
    server_ = std::move(made);
  }

  static std::string request(const std::string& target, const std::string& method = "GET",
                             const std::string& more = fmt::format("Authorization: Bearer {}\r\n", token)) {
    return fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n", method, target, more);
  }

  std::string ask(const std::string& text, bool has_body = true) {
    raw_client client(server_->port());
    client.send(text);
    return client.read_answer(has_body);
  }

  static std::string status(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }
  static std::string body(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }

  /// Returns the name and value of the cookie that an answer sets.
  static std::string cookie_in(const std::string& answer) {
    constexpr std::string_view field = "Set-Cookie: ";
    const auto begin = answer.find(field) + field.size();
    return answer.substr(begin, answer.find(';', begin) - begin);
  }

  std::unique_ptr<http_server> server_;
};

TEST_F(HttpServer, AnswersWhoHasTheToken) {
  start();
  const std::string answer = ask(request("/a%20b?x=1%2B2+3&y=4"));
  EXPECT_EQ(status(answer), "HTTP/1.1 200 OK");
  EXPECT_EQ(body(answer), "/a b|1+2 3");
  EXPECT_EQ(body(ask(request("/a?x=b|c[d]^{e}`\"<f>"))), "/a|b|c[d]^{e}`\"<f>") << "as browsers send it";
}

TEST_F(HttpServer, TurnsAwayWhoHasNot) {
  start();
  const std::string cookie = fmt::format("Cookie: troupe_page_{}=", server_->port());
  for (const std::string& more :
       {std::string(), std::string("Authorization: Bearer 0123456789abcdee\r\n"),
        std::string("Authorization: Bearer 0123456789abcde\r\n"), std::string("Authorization: Bearer \r\n"),
        std::string("Authorization: Basic 0123456789abcdef\r\n"), cookie + "wrong-token\r\n", cookie + "\r\n"}) {
    const std::string answer = ask(request("/", "GET", more));
    EXPECT_EQ(status(answer), "HTTP/1.1 401 Unauthorized") << more;
    EXPECT_NE(answer.find("WWW-Authenticate: Bearer"), std::string::npos);
    EXPECT_EQ(answer.find("/|"), std::string::npos) << "the handler was asked";
  }
  EXPECT_EQ(status(ask(request("/?token=0123456789abcdeX"))), "HTTP/1.1 401 Unauthorized");
}

TEST_F(HttpServer, TakesTheTokenOutOfTheAddress) {
  start();
  const std::string moved = ask(request("/view?a=1&token=0123456789abcdef&b=2", "GET", ""));
  EXPECT_EQ(status(moved), "HTTP/1.1 303 See Other");
  EXPECT_NE(moved.find("Location: /view?a=1&b=2\r\n"), std::string::npos) << moved;
  const std::string cookie = cookie_in(moved);
  EXPECT_TRUE(cookie.starts_with(fmt::format("troupe_page_{}=", server_->port()))) << moved;
  EXPECT_NE(moved.find(cookie + "; Path=/; HttpOnly; SameSite=Strict\r\n"), std::string::npos) << moved;
  EXPECT_EQ(status(ask(request("/view", "GET", "Cookie: other=1; " + cookie + "\r\n"))), "HTTP/1.1 200 OK");
}

// Browsers send a cookie to every server on this machine.
TEST_F(HttpServer, GivesOutACookieThatIsNotTheToken) {
  const std::string first_visit = request(fmt::format("/?token={}", token), "GET", "");
  start();
  const std::uint16_t port = server_->port();
  const std::string cookie = cookie_in(ask(first_visit));
  EXPECT_EQ(cookie.find(token), std::string::npos) << cookie;
  EXPECT_EQ(status(ask(request("/", "GET", fmt::format("Cookie: troupe_page_{}={}\r\n", port, token)))),
            "HTTP/1.1 401 Unauthorized");
  const std::string value = cookie.substr(cookie.find('=') + 1);
  EXPECT_EQ(status(ask(request("/", "GET", fmt::format("Authorization: Bearer {}\r\n", value)))),
            "HTTP/1.1 401 Unauthorized");
  EXPECT_EQ(status(ask(request("/?token=" + value, "GET", ""))), "HTTP/1.1 401 Unauthorized");
  start();
  const std::string later = cookie_in(ask(first_visit));
  EXPECT_NE(later.substr(later.find('=') + 1), value) << "that of one server is of no use for the next";
}

TEST_F(HttpServer, SendsNobodyElsewhere) {
  start();
  for (const char* target : {R"(\\evil.example/)", "http://evil.example/", "evil.example/", "/%zz", "/%"}) {
    const std::string refused = ask(request(fmt::format("{}?token={}", target, token), "GET", ""));
    EXPECT_EQ(status(refused), "HTTP/1.1 400 Bad Request") << target;
    EXPECT_EQ(refused.find("Location"), std::string::npos) << target << '\n' << refused;
  }
  for (const char* target : {"//evil.example/", R"(/\evil.example/)", R"(/a\..\\evil.example/)", "/%5Cevil.example/",
                             "/%2F%2Fevil.example/"}) {
    const std::string moved = ask(request(fmt::format("{}?token={}", target, token), "GET", ""));
    EXPECT_EQ(status(moved), "HTTP/1.1 303 See Other") << target;
    EXPECT_NE(moved.find("Location: /\r\n"), std::string::npos) << target << '\n' << moved;
  }
}

TEST_F(HttpServer, RefusesNamesThatAreNotItsOwn) {
  start();
  const auto with_host = [&](const std::string& field) {
    return status(ask(fmt::format("GET / HTTP/1.1\r\n{}Authorization: Bearer {}\r\n\r\n", field, token)));
  };
  EXPECT_EQ(with_host("Host: localhost:8080\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(with_host("Host: [::1]:8080\r\n"), "HTTP/1.1 200 OK");
  EXPECT_EQ(with_host("Host: evil.example\r\n"), "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(with_host("Host: 10.0.0.1\r\n"), "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(with_host("Host: localhost.evil.example\r\n"), "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(with_host("Host: localhost\r\nHost: evil.example\r\n"), "HTTP/1.1 403 Forbidden");
  EXPECT_EQ(with_host(""), "HTTP/1.1 403 Forbidden");
}

TEST_F(HttpServer, OnlyReads) {
  start();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"}) {
    const std::string answer = ask(request("/", method));
    EXPECT_EQ(status(answer), "HTTP/1.1 405 Method Not Allowed") << method;
    EXPECT_NE(answer.find("Allow: GET, HEAD"), std::string::npos);
  }
  EXPECT_EQ(status(ask(request("/", "GET", "Content-Length: 5\r\n") + "12345")), "HTTP/1.1 413 Payload Too Large");
}

TEST_F(HttpServer, AnswersHeadWithoutBody) {
  start();
  raw_client client(server_->port());
  client.send(request("/head", "HEAD") + request("/next"));
  const std::string head = client.read_answer(false);
  EXPECT_NE(head.find("Content-Length: 6\r\n"), std::string::npos) << head;
  EXPECT_EQ(body(head), "");
  EXPECT_EQ(body(client.read_answer()), "/next|");
}

TEST_F(HttpServer, KeepsAConnectionUntilAsked) {
  start();
  raw_client client(server_->port());
  for (int i = 0; i < 3; ++i) {
    client.send(request(fmt::format("/{}", i)));
    EXPECT_EQ(body(client.read_answer()), fmt::format("/{}|", i));
  }
  client.send(request("/last", "GET", fmt::format("Authorization: Bearer {}\r\nConnection: close\r\n", token)));
  const std::string rest = client.read_all();
  EXPECT_EQ(body(rest), "/last|");
}

TEST_F(HttpServer, RefusesWhatIsTooLongOrNoRequest) {
  http_server::options how;
  how.header_bytes = 2000;
  start(how);
  const std::string too_long = "X-Long: " + std::string(3000, 'x') + "\r\n";
  EXPECT_EQ(status(ask(request("/", "GET", too_long))), "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(status(ask(request("/" + std::string(100'000, 'y')))), "HTTP/1.1 431 Request Header Fields Too Large");
  EXPECT_EQ(status(ask("\x16\x03\x01 this is TLS\r\n\r\n")), "HTTP/1.1 400 Bad Request");
  EXPECT_EQ(status(ask("GET / HTTP/9.9\r\n\r\n")), "HTTP/1.1 400 Bad Request");
}

TEST_F(HttpServer, ClosesOnWhoSaysNothing) {
  http_server::options how;
  how.timeout = std::chrono::milliseconds(50);
  start(how);
  raw_client silent(server_->port());
  raw_client slow(server_->port());
  slow.send("GET / HT");
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_EQ(slow.read_all(), "");
}

TEST_F(HttpServer, TakesNoMoreConnectionsThanItSays) {
  http_server::options how;
  how.connections = 2;
  start(how);
  raw_client first(server_->port());
  raw_client second(server_->port());
  for (raw_client* client : {&first, &second}) {
    client->send(request("/in"));
    EXPECT_EQ(body(client->read_answer()), "/in|");
  }
  raw_client third(server_->port());
  EXPECT_EQ(third.read_all(), "");
  first.send(request("/still"));
  EXPECT_EQ(body(first.read_answer()), "/still|");
}

TEST_F(HttpServer, StrangersKeepNobodyOutWhoHasTheToken) {
  start();
  raw_client owner(server_->port());
  owner.send(request("/first"));
  EXPECT_EQ(body(owner.read_answer()), "/first|");
  std::deque<raw_client> silent;
  for (int i = 0; i < 200; ++i) {
    raw_client& one = silent.emplace_back(server_->port());
    one.send("GET / HT");
  }
  EXPECT_EQ(body(ask(request("/second"))), "/second|") << "by a new connection";
  owner.send(request("/third"));
  EXPECT_EQ(body(owner.read_answer()), "/third|") << "by one that is trusted";
  EXPECT_EQ(silent.front().read_all(), "");
  EXPECT_TRUE(silent.front().closed()) << "the oldest has made room";
}

TEST_F(HttpServer, WhoWasTurnedAwayStaysAStranger) {
  http_server::options how;
  how.strangers = 2;
  how.timeout = how.stranger_timeout = std::chrono::hours(1);
  start(how);
  raw_client guessing(server_->port());
  guessing.send(request("/", "GET", "Authorization: Bearer of-another\r\n"));
  EXPECT_EQ(status(guessing.read_answer()), "HTTP/1.1 401 Unauthorized");
  raw_client second(server_->port());
  raw_client third(server_->port());
  EXPECT_EQ(guessing.read_all(), "");
  EXPECT_TRUE(guessing.closed());
}

TEST_F(HttpServer, IsLessPatientWithStrangers) {
  http_server::options how;
  how.timeout = std::chrono::hours(1);
  how.stranger_timeout = std::chrono::milliseconds(50);
  start(how);
  std::deque<raw_client> attempts;  // retries, as a busy machine may delay this test beyond the timeout
  std::string answer;
  while (answer.empty()) {
    attempts.emplace_back(server_->port()).send(request("/before"));
    answer = attempts.back().read_answer();
  }
  raw_client& owner = attempts.back();
  EXPECT_EQ(body(answer), "/before|");
  raw_client silent(server_->port());
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.closed());
  owner.send(request("/after"));
  EXPECT_EQ(body(owner.read_answer()), "/after|");
}

TEST_F(HttpServer, ProtectsThePage) {
  start();
  for (const std::string& answer : {ask(request("/")), ask(request("/", "GET", ""))}) {
    EXPECT_NE(answer.find("Content-Security-Policy: default-src 'self';"), std::string::npos);
    EXPECT_NE(answer.find("frame-ancestors 'none'"), std::string::npos);
    EXPECT_NE(answer.find("X-Content-Type-Options: nosniff\r\n"), std::string::npos);
    EXPECT_NE(answer.find("X-Frame-Options: DENY\r\n"), std::string::npos);
    EXPECT_NE(answer.find("Referrer-Policy: no-referrer\r\n"), std::string::npos);
    EXPECT_NE(answer.find("Cache-Control: no-store\r\n"), std::string::npos);
    EXPECT_EQ(answer.find("Access-Control"), std::string::npos);
  }
}

TEST_F(HttpServer, SaysThatItCouldNotAnswer) {
  start();
  const std::string answer = ask(request("/throws"));
  EXPECT_EQ(status(answer), "HTTP/1.1 500 Internal Server Error");
  EXPECT_EQ(body(answer), "out of luck\n");
}

TEST_F(HttpServer, SaysWhereItCannotListen) {
  start();
  http_server::options same;
  same.token = token;
  same.port = server_->port();
  const auto second = http_server::start(same, echo);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message,
            fmt::format("127.0.0.1:{}: the port is in use; choose another, or 0 for any free one", server_->port()));
}

TEST_F(HttpServer, EndsWithConnectionsOpen) {
  start();
  raw_client client(server_->port());
  client.send("GET / HTTP/1.1\r\n");
  const std::uint16_t port = server_->port();
  server_.reset();
  EXPECT_EQ(client.read_all(), "");
  EXPECT_FALSE(raw_client(port).connected());
}

TEST_F(HttpServer, TellsItsAddress) {
  start();
  EXPECT_EQ(server_->url(), fmt::format("http://127.0.0.1:{}/?token={}", server_->port(), token));
}

}  // namespace
}  // namespace troupe::page::http_server_test
