// A thread that does nothing but the work of an io_context.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

namespace troupe {

class io_thread {
 public:
  io_thread() : guard_(boost::asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}

  /// Ends the thread; what it had to do yet is dropped.
  ~io_thread() { stop(); }

  io_thread(const io_thread&) = delete;
  io_thread& operator=(const io_thread&) = delete;

  boost::asio::io_context& io() { return io_; }

  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace troupe
