// A thread that runs an io_context.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <thread>

#include "base/lingering.hpp"

namespace troupe::links {

class io_thread {
 public:
  /// `lingers`: how long it polls for more work before it sleeps.
  explicit io_thread(std::chrono::microseconds lingers = {})
      : lingers_(lingers), guard_(boost::asio::make_work_guard(io_)), thread_([this] { work(); }) {}

  /// Ends the thread; pending work is dropped.
  ~io_thread() { stop(); }

  io_thread(const io_thread&) = delete;
  io_thread& operator=(const io_thread&) = delete;

  boost::asio::io_context& io() { return io_; }

  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  void work() {
    while (!io_.stopped()) {
      io_.run_one();
      while (lingers_.look([this] { return io_.poll() > 0; })) {
      }
    }
  }

  lingering lingers_;
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace troupe::links
