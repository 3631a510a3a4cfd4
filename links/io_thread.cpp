#include "links/io_thread.hpp"

namespace troupe::links {

void io_thread::work() {
  while (!io_.stopped()) {
    io_.run_one();
    while (lingers_.look([this] { return io_.poll() > 0; })) {
    }
  }
}

}  // namespace troupe::links
