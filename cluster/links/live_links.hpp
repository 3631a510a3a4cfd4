// The list of an io_context's links, which must release the io_context before its destruction: a link may live longer,
// and another thread may send, close or destroy it at that time.

#pragma once

#include <boost/asio/execution_context.hpp>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace troupe::links {

class abandonable {
 public:
  /// The io_context is being destroyed: do not use it any more. Returns objects to destroy without a lock held.
  virtual std::shared_ptr<void> abandon() = 0;

 protected:
  ~abandonable() = default;
};

struct live_links {
  std::mutex mutex;
  std::unordered_set<abandonable*> all;
};

/// Shared, because it may outlive the io_context.
std::shared_ptr<live_links> links_of(boost::asio::execution_context& io);

}  // namespace troupe::links
