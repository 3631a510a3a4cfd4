#include "nodes/end_deadline.hpp"

#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <utility>

namespace troupe::nodes {

end_deadline::~end_deadline() {
  {
    const std::lock_guard lock(mutex_);
    has_come_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void end_deadline::set(std::chrono::milliseconds time, std::string line) {
  const auto wait = [this, time, line = std::move(line)] {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, time, [this] { return has_come_; })) end(line);
  };
  try {
    thread_ = std::thread(wait);
  } catch (const std::system_error&) {  // the system grants no thread: without one, this one would wait for ever
    end("the system grants no thread for the end of the run");
  }
}

void end_deadline::end(const std::string& line) const {
  if (tell_) tell_(line);
  ::_exit(EXIT_FAILURE);  // anything more would wait for what does not end
}

}  // namespace troupe::nodes
