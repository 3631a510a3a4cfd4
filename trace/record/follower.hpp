// Follows the files of a trace while processes write them: each call returns only what is new since the last one.

#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

/// Follows one ring. Keeps the file open, so its last records can be read even after it was removed.
class ring_follower {
 public:
  /// Errors: as read_trace_file.
  static result<ring_follower> open(const std::filesystem::path& file, memory_budget& budget);

  /// Returns the current head, metadata and board; and of all chunks that had new records, or still may get some, only
  /// the new records. Errors: the file can no longer be read.
  result<trace_file> take(memory_budget& budget);

  /// About how many records were overwritten after the first `take` before they could be read.
  std::uint64_t lost() const { return lost_; }
  /// Whether its process was running on this machine at the last `take`.
  bool is_live() const { return is_live_; }

 private:
  struct open_chunk {
    std::uint64_t index = 0;  ///< counted over all chunks ever begun
    std::size_t taken = 0;    ///< records already returned
  };

  ring_follower() = default;
  std::string read(std::uint64_t at, std::uint64_t size) const;
  bool take_chunk(open_chunk& one, trace_file& to, memory_budget& budget);

  std::filesystem::path path_;
  descriptor file_;
  std::uint64_t chunks_begin_ = 0;
  std::uint64_t chunks_ = 0;
  bool has_begun_ = false;
  std::uint64_t next_ = 0;  ///< index of the first chunk not looked at yet
  std::vector<open_chunk> open_;
  std::uint64_t lost_ = 0;
  bool is_live_ = true;
  boost::json::object metadata_;  ///< as last read completely: the process may be changing them
};

/// Follows the files of one run, including those that appear later, and of a supervised run from attempt to attempt.
class follower {
 public:
  /// `from.memory_bytes_max` limits the result of each `take`. Errors: as read_recording.
  static result<follower> open(sources from);

  /// Returns what was recorded since the last call; the first call returns all, including logs of ended processes.
  /// Sorted by begin; a long message may come one call later than a message that began after it. Records of a newer
  /// attempt come alone, one call after the last of the previous attempt, unless `from` names a run or an attempt.
  result<recording> take();

  /// About how many records were overwritten before they could be read.
  std::uint64_t lost() const;
  /// Whether more may come: some process of the run still runs on this machine.
  bool is_live() const;

 private:
  explicit follower(sources from)
      : from_(std::move(from)),
        follows_attempts_(from_.run == 0 && from_.attempt == 0),
        budget_(from_.memory_bytes_max) {}
  result<void> find_new();
  result<std::vector<trace_file>> take_files();
  void set_newer_aside(std::vector<trace_file>& files);

  sources from_;
  bool follows_attempts_;
  memory_budget budget_;  ///< for the next `take`
  std::set<std::filesystem::path> known_;
  std::vector<trace_file> logs_;   ///< not returned yet
  std::vector<trace_file> newer_;  ///< files of a newer attempt than the one returned, for the next `take`
  std::vector<ring_follower> rings_;
};

}  // namespace troupe::trace
