#include "cluster/nodes/end_deadline.hpp"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace troupe::nodes {

end_deadline::end_deadline(std::function<void(const std::string&)> report)
    : report_(std::move(report)), thread_([this] { wait(); }) {}

end_deadline::~end_deadline() {
  {
    const std::lock_guard lock(mutex_);
    has_come_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void end_deadline::set(std::chrono::milliseconds time, std::string line) {
  {
    const std::lock_guard lock(mutex_);
    due_ = std::chrono::steady_clock::now() + time;
    line_ = std::move(line);
  }
  changed_.notify_all();
}

void end_deadline::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return has_come_ || due_; });
  if (due_ && !changed_.wait_until(lock, *due_, [this] { return has_come_; })) end(line_);
}

void end_deadline::end(const std::string& line) const {
  if (report_) report_(line);
  ::_exit(EXIT_FAILURE);  // a regular exit would wait for the handler that does not end
}

}  // namespace troupe::nodes
