// The links of an io_context, so that they can let go of it when it is destroyed: somebody may hold a link longer than
// that, and send, close or destroy it on another thread at that very time.

#pragma once

#include <boost/asio/execution_context.hpp>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace troupe::links {

class abandonable {
 public:
  /// The io_context is about to go: touch it no more. Gives back what may only be destroyed when nothing is locked.
  virtual std::shared_ptr<void> abandon() = 0;

 protected:
  ~abandonable() = default;
};

struct live_links {
  std::mutex mutex;
  std::unordered_set<abandonable*> all;
};

/// Shared, since it may be needed after the io_context.
std::shared_ptr<live_links> links_of(boost::asio::execution_context& io);

}  // namespace troupe::links
