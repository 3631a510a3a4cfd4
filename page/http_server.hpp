// A small HTTP/1.1 server for the page: it passes authorized GET requests to a function. It does not encrypt: beyond
// this machine's loopback it needs a tunnel.

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

/// A request's target such as `/api/messages?type=rows`, split and decoded. HEAD is answered as GET without a body.
struct http_request {
  std::string path;
  std::map<std::string, std::string> query;

  /// Returns a parameter's text; empty if it is absent.
  std::string_view text(const std::string& name) const;
};

/// Parses a request's target; null if it does not have the form `/path?name=value` with two hexadecimal digits after
/// each percent sign.
std::optional<http_request> read_target(std::string_view target);

/// Returns `target` without the parameter `name`. Requires: `read_target` accepts `target`.
std::string without_parameter(std::string_view target, const std::string& name);

struct http_response {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  /// Shared, so that a cached answer is not copied.
  std::shared_ptr<const std::string> body;
  /// Additional header fields.
  std::vector<std::pair<std::string, std::string>> fields;

  static http_response of(unsigned status, std::string content_type, std::string text);
};

/// Answers requests, one at a time, on the server's thread. An exception becomes status 500.
using http_handler = std::function<http_response(const http_request&)>;

class http_server {
 public:
  struct options {
    std::string host = "127.0.0.1";  ///< address or name to listen on
    std::uint16_t port = 0;          ///< 0: any free port
    std::string token;               ///< gives access; not empty
    std::size_t connections = 64;    ///< limit; further connections are closed
    std::size_t strangers = 8;       ///< limit of unauthorized connections; one more closes the oldest
    std::size_t header_bytes = 16 << 10;
    std::chrono::milliseconds timeout{15'000};          ///< for a whole request, and for an idle connection
    std::chrono::milliseconds stranger_timeout{5'000};  ///< the same while unauthorized
  };

  /// Listens, and serves on its own thread of low priority. Errors: one line for the user.
  static result<std::unique_ptr<http_server>> start(const options& how, http_handler handler);
  /// Closes all connections; blocks until the current request is answered.
  ~http_server();

  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  std::uint16_t port() const;
  /// Returns the page's address with the token: `http://127.0.0.1:8080/?token=...`.
  std::string url() const;

 private:
  struct state;
  explicit http_server(std::unique_ptr<state> with);

  std::unique_ptr<state> state_;
};

}  // namespace troupe::page
