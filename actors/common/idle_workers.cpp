#include "actors/common/idle_workers.hpp"

#include <caf/ref_counted.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <utility>

namespace troupe::actors {

namespace {

/// Offered work in a worker's queue of actors.
class offered_work final : public caf::ref_counted, public caf::resumable {
 public:
  explicit offered_work(std::function<void()> help) : help_(std::move(help)) {}

  resume_result resume(caf::execution_unit*, std::size_t) override {
    help_();
    return done;
  }
  void intrusive_ptr_add_ref_impl() override { ref(); }
  void intrusive_ptr_release_impl() override { deref(); }

 private:
  std::function<void()> help_;
};

}  // namespace

std::size_t idle_workers::count() const {
  const std::lock_guard lock(mutex_);
  return system_ == nullptr ? 0 : system_->scheduler().num_workers() - 1;
}

void idle_workers::offer(std::function<void()> help) {
  const std::lock_guard lock(mutex_);
  if (system_ != nullptr) system_->scheduler().enqueue(new offered_work(std::move(help)));  // the scheduler releases it
}

void idle_workers::close() {
  const std::lock_guard lock(mutex_);
  system_ = nullptr;
}

}  // namespace troupe::actors
