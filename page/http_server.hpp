// A small HTTP/1.1 server for a page that one person looks at: it serves what a function answers, to those who have the
// token, and changes nothing. Plain text on the wire: beyond this machine's loopback it belongs behind a tunnel.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace troupe::page {

/// What a browser asks for: `/api/messages?type=rows` taken apart and decoded. HEAD is answered as GET without a body.
struct http_request {
  std::string path;
  std::map<std::string, std::string> query;

  /// A parameter's text; empty if it was not given.
  std::string_view text(const std::string& name) const;
};

/// Reads a request's target; nothing if it has not the form `/path?name=value`, with two hexadecimal digits behind each
/// percent sign.
std::optional<http_request> read_target(std::string_view target);

/// `target` without the parameter `name`. Requires: `read_target` could read it.
std::string without_parameter(std::string_view target, const std::string& name);

struct http_response {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  /// Shared, so that an answer that is kept need not be copied.
  std::shared_ptr<const std::string> body;
  /// Further fields of the header.
  std::vector<std::pair<std::string, std::string>> fields;

  static http_response of(unsigned status, std::string content_type, std::string text);
};

/// Answers requests, one at a time, on the server's thread. What it throws becomes a status 500.
using http_handler = std::function<http_response(const http_request&)>;

class http_server {
 public:
  struct options {
    std::string host = "127.0.0.1";  ///< address or name to listen on
    std::uint16_t port = 0;          ///< 0: any that is free
    std::string token;               ///< who has it is let in; not empty
    std::size_t connections = 64;    ///< at a time; what comes beyond is closed
    std::size_t strangers = 8;       ///< of them, without a request that had the token; one more ends the oldest
    std::size_t header_bytes = 16 << 10;
    std::chrono::milliseconds timeout{15'000};          ///< for a whole request; an idle connection is closed after it
    std::chrono::milliseconds stranger_timeout{5'000};  ///< the same for a stranger's
  };

  /// Listens, and serves on a thread of its own that gives way to others. Errors: one line for the user.
  static result<std::unique_ptr<http_server>> start(const options& how, http_handler handler);
  /// Closes all connections; waits for a request that is being answered.
  ~http_server();

  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  std::uint16_t port() const;
  /// Where the page is, with the token: `http://127.0.0.1:8080/?token=...`.
  std::string url() const;

 private:
  struct state;
  explicit http_server(std::unique_ptr<state> with);

  std::unique_ptr<state> state_;
};

}  // namespace troupe::page
