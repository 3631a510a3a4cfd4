// A thread that runs an io_context.

#pragma once

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <thread>

namespace troupe::links {

class io_thread {
 public:
  /// `lingers`: how long it polls for more work before it sleeps, since waking a sleeping core takes some 40 us.
  /// Polling yields the core to other threads, and pauses for a while after another thread has kept the core for long.
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
  using clock = std::chrono::steady_clock;

  void work();
  void look_for_more();

  const std::chrono::microseconds lingers_;
  clock::time_point sleeps_until_;  ///< no polling until then
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  std::thread thread_;
};

}  // namespace troupe::links
