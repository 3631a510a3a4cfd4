// The page of a run that has ended or is under way (also in this process), made from the files that the run records.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "page/http_server.hpp"
#include "page/run_page.hpp"
#include "trace/record/recording.hpp"

namespace troupe::page {

class live_page {
 public:
  struct options {
    trace::sources from;  ///< files and folders; may be empty at first, and grow
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  ///< 0: any free port
    std::string token;       ///< empty: a random one
  };

  /// Serves on its own thread until it is destroyed. Files are read only for a request. Errors, one line for the user:
  /// it cannot listen there, or the token is invalid.
  static result<std::unique_ptr<live_page>> start(options how);

  /// Returns the page's address with the token.
  std::string url() const { return server_->url(); }

 private:
  explicit live_page(trace::sources from);

  run_page page_;
  std::unique_ptr<http_server> server_;  ///< destroyed before the members that it uses
};

/// Returns whether `host` is a loopback address or `localhost`, which only this machine can reach.
bool is_loopback(const std::string& host);

}  // namespace troupe::page
