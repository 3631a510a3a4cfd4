// Follows files of a trace while processes write them: what is new since the last look, and no more.

#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/recording.hpp"
#include "trace/trace_file.hpp"

namespace troupe::trace {

/// One ring. It stays open: what its process recorded last is read even when the file is gone.
class ring_follower {
 public:
  /// Errors: as those of read_trace_file.
  static result<ring_follower> open(const std::filesystem::path& file, memory_budget& budget);
  ring_follower(ring_follower&&) noexcept;
  ring_follower& operator=(ring_follower&&) = delete;
  ~ring_follower();

  /// Head, metadata and board as they are now; of the chunks all that had new records, or still may have, with those
  /// records alone. Errors: it cannot be read any more.
  result<trace_file> take(memory_budget& budget);

  /// Records that were overwritten after the first `take`, before they could be taken; about.
  std::uint64_t lost() const { return lost_; }
  /// As of the last `take`: its process still runs on this machine.
  bool is_live() const { return is_live_; }

 private:
  struct open_chunk {
    std::uint64_t index = 0;  ///< of all chunks that were ever begun
    std::size_t taken = 0;    ///< records
  };

  ring_follower() = default;
  std::string read(std::uint64_t at, std::uint64_t size) const;
  bool take_chunk(open_chunk& one, trace_file& to, memory_budget& budget);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t chunks_begin_ = 0;
  std::uint64_t chunks_ = 0;
  bool has_begun_ = false;
  std::uint64_t next_ = 0;  ///< the first that has not been looked at
  std::vector<open_chunk> open_;
  std::uint64_t lost_ = 0;
  bool is_live_ = true;
};

/// The files of one run, those that appear later among them.
class follower {
 public:
  /// `from.memory_bytes_max` is for what one `take` gives. Errors: as those of read_recording.
  static result<follower> open(sources from);

  /// What has been recorded since the last call; the first time everything there is, logs of processes that have ended
  /// among it. Events by begin; across calls a message that took long may come after one that began later.
  result<recording> take();

  /// Records that were overwritten before they could be taken; about.
  std::uint64_t lost() const;
  /// Whether there may be more: some process still runs on this machine.
  bool is_live() const;

 private:
  explicit follower(sources from) : from_(std::move(from)), budget_(from_.memory_bytes_max) {}
  result<void> find_new();

  sources from_;
  memory_budget budget_;  ///< of the next `take`
  std::set<std::filesystem::path> known_;
  std::vector<trace_file> logs_;  ///< not given yet
  std::vector<ring_follower> rings_;
};

}  // namespace troupe::trace
