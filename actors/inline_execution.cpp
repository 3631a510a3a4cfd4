#include "actors/inline_execution.hpp"

#include <caf/resumable.hpp>
#include <limits>

namespace troupe::actors {

inline_execution::~inline_execution() {
  for (caf::resumable* job : jobs_) caf::intrusive_ptr_release(job);
}

void inline_execution::run() {
  running_on_ = std::this_thread::get_id();
  while (!jobs_.empty()) {
    caf::resumable* job = jobs_.front();
    jobs_.pop_front();
    const auto outcome = job->resume(this, std::numeric_limits<std::size_t>::max());
    if (outcome == caf::resumable::resume_later)
      jobs_.push_back(job);
    else if (outcome != caf::resumable::shutdown_execution_unit)  // it is done, or waits for a message
      caf::intrusive_ptr_release(job);
  }
  for (const auto& what : std::exchange(at_end_, {})) what();
  running_on_ = std::thread::id();
}

}  // namespace troupe::actors
