// Saves everything that goes through a ring to a compressed file, on a thread that follows the ring. Recording threads
// never wait for it; records that it cannot keep up with are counted.

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

#include "trace/record/content.hpp"
#include "trace/record/ring.hpp"

namespace troupe::trace {

/// Makes a message's content on the writer's thread; `bytes`: the memory that the job keeps alive until then.
struct content_job {
  std::function<content()> make;
  std::uint64_t bytes = 0;
};

class log_writer {
 public:
  /// Creates the file; on failure `problem` says why. Requires: `what` outlives the writer.
  log_writer(ring& what, std::filesystem::path file);
  ~log_writer() { finish(); }

  log_writer(const log_writer&) = delete;
  log_writer& operator=(const log_writer&) = delete;

  /// Queues a content. If there is no room, counts it in the ring's `contents_lost`. Thread: any.
  void keep(content_job job);

  /// Saves what is left. Requires: no thread appends to the ring any more.
  void finish();

  /// Why the log is incomplete; empty: it is complete. Thread: any.
  std::string problem() const;

  const std::filesystem::path& file() const { return file_; }

 private:
  void follow(const std::stop_token& stop);
  void take_chunks(bool all);
  /// Makes queued contents of at most `bytes_max`; returns false if none are left.
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

  // For the writer's thread only.
  std::uint64_t first_not_seen_ = 0;  ///< chunks before this one have been saved, or wait in `open_`
  std::vector<std::uint64_t> open_;   ///< chunks that their threads still fill
  std::string raw_chunks_;            ///< copied chunks, not written yet
  std::string raw_contents_;
  std::uint64_t contents_in_block_ = 0;  ///< count of contents in `raw_contents_`
  std::jthread thread_;
};

}  // namespace troupe::trace
