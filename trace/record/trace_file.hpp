// One file of a trace from disk: checked and parsed, not interpreted.

#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/host.hpp"
#include "base/result.hpp"
#include "trace/record/board_call.hpp"
#include "trace/record/content.hpp"
#include "trace/record/file_format.hpp"
#include "trace/record/memory_budget.hpp"

namespace troupe::trace {

/// Data of a process, in a file and in a recording.
struct recorded_process {
  std::uint32_t pid = 0;
  std::uint32_t node = 0;
  std::uint32_t incarnation = 0;
  ending end = ending::none;
  std::uint64_t dropped = 0;  ///< by the filter
  std::uint64_t contents_lost = 0;
  boost::json::object metadata;
  std::string metadata_fault;  ///< why the metadata cannot be used, as in "are damaged"; empty: they can
};

/// Data of an actor on the board.
struct recorded_actor {
  std::uint16_t actor = 0;
  std::uint16_t incarnation = 0;
  std::string name;
  std::uint64_t step = 0;
  std::uint64_t message = 0;  ///< being handled; 0: none, or work that no message requested
  std::uint16_t message_type = 0;
  std::uint64_t last_sent = 0;
  std::uint64_t handled = 0;
  std::uint32_t open_more = 0;
};

/// An entry of the board; times are in ticks.
struct board_row : recorded_actor {
  std::uint32_t state = 0;
  std::uint64_t step_begin = 0;
  std::uint64_t message_begin = 0;
  std::uint64_t dropped = 0;
  struct request {
    std::uint64_t id = 0;
    std::uint64_t since = 0;
    std::uint16_t type = 0;
    std::uint16_t peer = 0;
    std::uint32_t step = 0;
  };
  std::vector<request> open;
};

struct trace_file : recorded_process {
  std::filesystem::path path;
  bool is_log = false;
  std::uint64_t process = 0;
  std::uint64_t run = 0;
  std::uint64_t next_chunk = 0;
  std::uint64_t chunks_lost = 0;
  std::uint64_t chunks_begin = 0;    ///< ring: the first byte of its chunks
  std::uint64_t chunk_capacity = 0;  ///< ring: how many chunks it has room for
  clock_sample begin;
  clock_sample seen;            ///< in a copy of a ring that was being written: when copying began; else zeros
  std::uint64_t read_from = 0;  ///< ticks, when reading it began: it has all that was recorded before; 0: unknown
  std::vector<board_row> board;
  std::vector<std::pair<std::uint16_t, call_state>> calls;  ///< on the board, by actor
  struct chunk {
    clock_sample begin;
    std::vector<record> records;
  };
  std::map<std::uint64_t, chunk> chunks;  ///< by number
  std::vector<content> contents;
  std::vector<std::string> warnings;  ///< other parts that could not be read
};

/// The metadata key of the run's failure.
constexpr std::string_view error_key = "error";

/// The metadata key of the list of entries without room, such as `names`, `job.columns`.
constexpr std::string_view left_out_key = "left_out";

/// Whether a file has the name and the first bytes of a trace file.
bool is_trace_file(const std::filesystem::path& path);

/// Reads a file and counts the memory that it needs in a recording against `budget`. Errors: it cannot be read, is not
/// a trace, is of another version, ends within its head, or exceeds the budget. Other parts that are cut off or damaged
/// become warnings.
result<trace_file> read_trace_file(const std::filesystem::path& path, memory_budget& budget);

/// Reads the complete records of a chunk of `chunk_bytes`; nothing once the budget is exceeded.
void read_chunk(const char* from, trace_file& to, memory_budget& budget);

/// Whether its process still runs, as far as this machine knows; null: it is another machine's, or has recorded its
/// end.
std::optional<bool> is_alive(const trace_file& file);

/// Whether its process is on this machine and stopped by a signal or a debugger.
bool is_stopped(const trace_file& file);

/// The same from bytes in memory, `name` for errors.
result<trace_file> parse_trace_file(std::string_view bytes, const std::filesystem::path& name, memory_budget& budget);

/// Without a limit: for files from a known source.
result<trace_file> read_trace_file(const std::filesystem::path& path);
result<trace_file> parse_trace_file(std::string_view bytes, const std::filesystem::path& name);

}  // namespace troupe::trace
