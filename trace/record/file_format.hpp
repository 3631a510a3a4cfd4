// How a trace is stored. Two kinds of file share the same head: the ring, which a process writes through shared memory,
// so that the OS keeps it even if the process dies; and the log, which keeps everything, compressed.
//
// Ring:  head (4 KiB) | metadata, JSON | board, an entry for each actor | chunks, each of 63 records
// Log:   head (4 KiB) | metadata, JSON | blocks: chunks, contents or a board
//
// All numbers are little-endian. docs/formats.md specifies the same byte by byte.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "trace/record/clock.hpp"
#include "trace/record/record.hpp"

namespace troupe::trace {

constexpr std::array<char, 8> ring_magic = {'T', 'R', 'P', 'R', 'I', 'N', 'G', '\n'};
constexpr std::array<char, 8> log_magic = {'T', 'R', 'P', 'L', 'O', 'G', '\n', '\n'};
constexpr std::uint32_t format_version = 1;

constexpr std::uint64_t head_bytes = 4096;
constexpr std::uint64_t metadata_bytes = 60 << 10;
constexpr std::uint64_t board_entry_bytes = 512;
constexpr std::uint64_t chunk_bytes = 4096;
constexpr std::uint64_t records_per_chunk = chunk_bytes / sizeof(record) - 1;

/// A number that one process writes while others read it.
template <class T>
using shared = std::atomic<T>;
static_assert(shared<std::uint64_t>::is_always_lock_free && shared<std::uint32_t>::is_always_lock_free);

/// How a process ended, as recorded by itself.
enum class ending : std::uint32_t { none = 0, clean, failed };

struct file_head {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t head_size;      ///< head_bytes
  std::uint32_t metadata_size;  ///< room for metadata
  std::uint32_t board_entries;
  std::uint32_t chunk_size;   ///< chunk_bytes
  std::uint32_t record_size;  ///< sizeof(record)
  std::uint64_t chunks;       ///< room for chunks; 0 in a log
  std::uint64_t process;      ///< random id that the files of one process share
  clock_sample begin;
  shared<std::uint64_t> run;          ///< 0: not known yet
  shared<std::uint32_t> pid;          ///< the process's
  shared<std::uint32_t> node;         ///< within its run; 0: the master's process
  shared<std::uint32_t> incarnation;  ///< the node's
  shared<ending> end;
  shared<std::uint64_t> next_chunk;       ///< chunks ever begun
  shared<std::uint64_t> dropped;          ///< as `board_entry::dropped`, for actors that are not on the board
  shared<std::uint64_t> contents_lost;    ///< log: messages whose contents did not fit
  shared<std::uint64_t> chunks_lost;      ///< log: chunks overwritten before they were saved
  shared<std::uint64_t> board_full;       ///< actors without an entry on the board
  clock_sample seen;                      ///< in a copy of a ring that was being written: when copying began; else 0
  shared<std::uint32_t> metadata_length;  ///< bytes of metadata, written before this
  shared<std::uint64_t> metadata_digest;  ///< 64-bit XXH3 of the metadata; 0: from a version that wrote none
};
static_assert(sizeof(file_head) <= head_bytes);

/// A request that an actor has sent and that has not been answered yet.
struct open_request {
  shared<std::uint64_t> id;  ///< the message; 0: none
  shared<std::uint64_t> since;
  shared<std::uint32_t> type16_peer16;
  shared<std::uint32_t> step;
};

constexpr std::size_t open_requests_max = 16;

/// What an actor is doing right now. Thread: written by that actor, read by any thread or process at any time.
struct board_entry {
  shared<std::uint32_t> state;  ///< 0: no actor; 1: alive; 2: has ended
  std::uint16_t actor;
  std::uint16_t incarnation;
  std::array<char, 24> name;            ///< ends with a zero
  shared<std::uint64_t> step;           ///< the current step
  shared<std::uint64_t> step_begin;     ///< ticks; 0: none is under way
  shared<std::uint64_t> message;        ///< being handled; 0: none, unless `message_begin` is set
  shared<std::uint64_t> message_begin;  ///< ticks; 0: nothing is being handled
  shared<std::uint32_t> message_type;
  shared<std::uint32_t> open_more;     ///< number of requests that did not fit in `open`
  shared<std::uint64_t> last_sent;     ///< sequence number of the last message it sent
  shared<std::uint64_t> handled;       ///< messages
  shared<std::uint64_t> step_longest;  ///< ticks: the longest step so far
  shared<std::uint64_t> dropped;       ///< records rejected by the filter, or after its count was reached
  std::array<open_request, open_requests_max> open;
};
static_assert(sizeof(board_entry) <= board_entry_bytes);

/// A chunk belongs to one thread until that thread is done with it.
struct chunk_head {
  shared<std::uint64_t> number;  ///< 1 + the number of chunks begun before; 0: being claimed
  shared<std::uint32_t> thread;  ///< the OS thread id
  shared<std::uint32_t> closed;  ///< 1: no more records will come
  clock_sample begin;
  std::array<std::uint64_t, 3> reserved;
};
static_assert(sizeof(chunk_head) == sizeof(record));

/// A record of chunk `number` is complete if its stamp has this value.
constexpr std::uint16_t stamp_of(std::uint64_t number) { return static_cast<std::uint16_t>(number % UINT16_MAX + 1); }

/// Marks the bytes of a ring as a copy that this machine began to make at `when`: it has all that was recorded before.
void mark_as_copy(std::string& bytes, const clock_sample& when);

/// The kinds of block in a log, after head and metadata.
enum class block_kind : std::uint32_t { chunks = 1, contents = 2, board = 3 };

struct block_head {
  std::uint32_t magic;  ///< block_magic
  block_kind what;
  std::uint64_t stored;  ///< bytes that follow, as one Zstandard frame
  std::uint64_t size;    ///< when unpacked
  std::uint64_t digest;  ///< 64-bit XXH3 of the stored bytes
};
constexpr std::uint32_t block_magic = 0x4b4c4254;  // "TBLK"

}  // namespace troupe::trace
