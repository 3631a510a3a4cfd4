#include "links/io_thread.hpp"

namespace troupe::links {

void io_thread::work() {
  while (!io_.stopped()) {
    io_.run_one();
    if (lingers_.count() > 0 && clock::now() >= sleeps_until_) look_for_more();
  }
}

void io_thread::look_for_more() {
  constexpr std::chrono::microseconds taken_for_long{300};
  constexpr std::chrono::milliseconds pause{100};
  auto since = clock::now();
  while (!io_.stopped()) {
    if (io_.poll() > 0) {
      since = clock::now();
      continue;
    }
    const auto before = clock::now();
    if (before - since > lingers_) return;
    std::this_thread::yield();
    if (const auto now = clock::now(); now - before > taken_for_long) {
      sleeps_until_ = now + pause;
      return;
    }
  }
}

}  // namespace troupe::links
