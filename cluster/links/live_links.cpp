#include "cluster/links/live_links.hpp"

#include <vector>

namespace troupe::links {

namespace {

/// Asio calls `shutdown` at the beginning of the io_context's destruction.
class link_service final : public boost::asio::execution_context::service {
 public:
  using key_type = link_service;
  static boost::asio::execution_context::id id;

  explicit link_service(boost::asio::execution_context& io) : service(io) {}

  const std::shared_ptr<live_links>& links() const { return links_; }

 private:
  void shutdown() noexcept override {
    std::vector<std::shared_ptr<void>> left;  // destroyed after the lock is released
    const std::scoped_lock lock(links_->mutex);
    for (abandonable* one : links_->all) left.push_back(one->abandon());
    links_->all.clear();
  }

  std::shared_ptr<live_links> links_ = std::make_shared<live_links>();
};

boost::asio::execution_context::id link_service::id;

}  // namespace

std::shared_ptr<live_links> links_of(boost::asio::execution_context& io) {
  return boost::asio::use_service<link_service>(io).links();
}

}  // namespace troupe::links
