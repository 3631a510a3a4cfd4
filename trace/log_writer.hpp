// Keeps everything that goes through a ring in a file, compressed: a thread that follows the ring. Who records never
// waits for it; what it cannot keep up with is counted.

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "trace/content.hpp"
#include "trace/ring.hpp"

namespace troupe::trace {

/// Makes a message's content on the writer's thread; `bytes`: what it holds on to until then.
struct content_job {
  std::function<content()> make;
  std::uint64_t bytes = 0;
};

class log_writer {
 public:
  /// Makes the file; if it cannot, `problem` says so. `what` must outlive it.
  log_writer(ring& what, std::filesystem::path file);
  ~log_writer() { finish(); }

  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  /// From any thread. What there is no room for is counted in the ring's `contents_lost`.
  void keep(content_job job);

  /// Keeps what is left. Nobody may append to the ring any more.
  void finish();

  /// Why not everything is kept; empty: it is. From any thread.
  std::string problem() const;

  const std::filesystem::path& file() const { return file_; }

 private:
  void follow(const std::stop_token& stop);
  void take_chunks(bool all);
  /// Makes those of so many bytes at most; false: there are no more.
  bool take_contents(std::uint64_t bytes_max);
  void write_block(block_kind what, const std::string& raw);
  void write_head();
  bool write_all(const char* bytes, std::size_t size);

  ring& ring_;
  const std::filesystem::path file_;
  int descriptor_ = -1;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<content_job> jobs_;
  std::uint64_t jobs_bytes_ = 0;
  std::string problem_;

  // Of the thread.
  std::uint64_t first_not_seen_ = 0;  ///< chunks before it have been kept, or wait in `open_`
  std::vector<std::uint64_t> open_;   ///< whose thread is not done with them
  std::string raw_chunks_;            ///< kept chunks, not written yet
  std::string raw_contents_;
  std::uint64_t contents_in_block_ = 0;  ///< in `raw_contents_`
  std::jthread thread_;
};

}  // namespace troupe::trace
