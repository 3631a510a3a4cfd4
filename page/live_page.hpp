// The page of a run, over the files that it records: one that is over, or one under way, this process's own among them.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.hpp"
#include "page/http_server.hpp"
#include "page/run_page.hpp"
#include "trace/recording.hpp"

namespace troupe::page {

class live_page {
 public:
  struct options {
    trace::sources from;  ///< files and folders; may be empty still, and grow
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  ///< 0: any that is free
    std::string token;       ///< empty: one that nobody else has
  };

  /// Serves from a thread of its own until it is destroyed. Files are read when somebody asks, not before. Errors, one
  /// line for the user: it cannot listen there, or the token is none.
  static result<std::unique_ptr<live_page>> start(options how);

  /// Where the page is, token included.
  std::string url() const { return server_->url(); }

 private:
  explicit live_page(trace::sources from);

  run_page page_;
  std::unique_ptr<http_server> server_;  ///< ends before what it asks
};

/// Whether only this machine can reach what listens on `host`: an address of its loopback, or `localhost`.
bool is_loopback(const std::string& host);

}  // namespace troupe::page
