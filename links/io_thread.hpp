// A thread that does nothing but the work of an io_context.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <thread>

namespace troupe::links {

class io_thread {
 public:
  /// `lingers`: after each piece of work it looks for more for so long before it sleeps. To wake a core that sleeps
  /// takes some 40 us; looking gives the core to whoever else wants it, and is left off for a while when somebody took
  /// it for long.
  explicit io_thread(std::chrono::microseconds lingers = {})
      : lingers_(lingers), guard_(boost::asio::make_work_guard(io_)), thread_([this] { work(); }) {}

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
  using clock = std::chrono::steady_clock;

  void work();
  void look_for_more();

  const std::chrono::microseconds lingers_;
  clock::time_point sleeps_until_;  ///< until then it does not linger
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace troupe::links
