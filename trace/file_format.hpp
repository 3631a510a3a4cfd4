// How a trace lies on disk. Two kinds of file begin with the same head: the ring, which a process writes through shared
// memory, so that the system keeps it whatever becomes of the process; and the log, which keeps everything, compressed.
//
// Ring:  head (4 KiB) | metadata, JSON | board, an entry for each actor | chunks, each of 63 records
// Log:   head (4 KiB) | metadata, JSON | blocks: chunks, contents or a board
//
// All numbers are little-endian. docs/formats.md has the same byte by byte.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "trace/clock.hpp"
#include "trace/record.hpp"

namespace troupe::trace {

constexpr std::array<char, 8> ring_magic = {'T', 'R', 'P', 'R', 'I', 'N', 'G', '\n'};
constexpr std::array<char, 8> log_magic = {'T', 'R', 'P', 'L', 'O', 'G', '\n', '\n'};
constexpr std::uint32_t format_version = 1;

constexpr std::uint64_t head_bytes = 4096;
constexpr std::uint64_t metadata_bytes = 60 << 10;
constexpr std::uint64_t board_entry_bytes = 512;
constexpr std::uint64_t chunk_bytes = 4096;
constexpr std::uint64_t records_per_chunk = chunk_bytes / sizeof(record) - 1;

/// A number that a process writes and others read while it does.
template <class T>
using shared = std::atomic<T>;
static_assert(shared<std::uint64_t>::is_always_lock_free && shared<std::uint32_t>::is_always_lock_free);

/// How a process ended, as far as it said so.
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
  std::uint64_t process;      ///< drawn at random: tells the files of one process from others
  clock_sample begin;
  shared<std::uint64_t> run;          ///< 0: not known yet
  shared<std::uint32_t> pid;          ///< of the process
  shared<std::uint32_t> node;         ///< within its run; 0: the master's process
  shared<std::uint32_t> incarnation;  ///< of the node
  shared<ending> end;
  shared<std::uint64_t> next_chunk;       ///< chunks ever begun
  shared<std::uint64_t> dropped;          ///< the same as on the board, of others than its actors
  shared<std::uint64_t> contents_lost;    ///< log: messages whose contents there was no room for
  shared<std::uint64_t> chunks_lost;      ///< log: chunks that were overwritten before they could be kept
  shared<std::uint64_t> board_full;       ///< actors without an entry on the board
  clock_sample seen;                      ///< a copy: when it was made of a ring that was being written; else 0
  shared<std::uint32_t> metadata_length;  ///< bytes of metadata, written before this
};
static_assert(sizeof(file_head) <= head_bytes);

/// Something that an actor has asked for and not got yet.
struct open_request {
  shared<std::uint64_t> id;  ///< of the message; 0: none
  shared<std::uint64_t> since;
  shared<std::uint32_t> type16_peer16;
  shared<std::uint32_t> step;
};

constexpr std::size_t open_requests_max = 16;

/// What an actor is at right now. Written by that actor, read by anyone at any time.
struct board_entry {
  shared<std::uint32_t> state;  ///< 0: no actor; 1: alive; 2: has ended
  std::uint16_t actor;
  std::uint16_t incarnation;
  std::array<char, 24> name;            ///< ends with a zero
  shared<std::uint64_t> step;           ///< under way
  shared<std::uint64_t> step_begin;     ///< ticks; 0: none is under way
  shared<std::uint64_t> message;        ///< being handled; 0: none, unless `message_begin` is set
  shared<std::uint64_t> message_begin;  ///< ticks; 0: nothing is being handled
  shared<std::uint32_t> message_type;
  shared<std::uint32_t> open_more;     ///< requests for which `open` has no room
  shared<std::uint64_t> last_sent;     ///< the sequence number of the last message that it has sent
  shared<std::uint64_t> handled;       ///< messages
  shared<std::uint64_t> step_longest;  ///< ticks: the longest step so far
  shared<std::uint64_t> dropped;       ///< records that did not pass the filter, or came after its count was full
  std::array<open_request, open_requests_max> open;
};
static_assert(sizeof(board_entry) <= board_entry_bytes);

/// A chunk belongs to one thread, until that is done with it.
struct chunk_head {
  shared<std::uint64_t> number;  ///< one more than how many were begun before; 0: being taken
  shared<std::uint32_t> thread;  ///< the system's number of the thread
  shared<std::uint32_t> closed;  ///< 1: no more records will come
  clock_sample begin;
  std::array<std::uint64_t, 3> reserved;
};
static_assert(sizeof(chunk_head) == sizeof(record));

/// A record of chunk `number` is whole if its stamp is this.
constexpr std::uint16_t stamp_of(std::uint64_t number) { return static_cast<std::uint16_t>(number % UINT16_MAX + 1); }

/// Notes in the bytes of a ring that they have been copied now, on this machine.
void mark_as_copy(std::string& bytes);

/// What a log is made of, after head and metadata.
enum class block_kind : std::uint32_t { chunks = 1, contents = 2, board = 3 };

struct block_head {
  std::uint32_t magic;  ///< block_magic
  block_kind what;
  std::uint64_t stored;  ///< bytes that follow, as one Zstandard frame
  std::uint64_t size;    ///< when unpacked
  std::uint64_t digest;  ///< XXH3, 64 bits, of what is stored
};
constexpr std::uint32_t block_magic = 0x4b4c4254;  // "TBLK"

}  // namespace troupe::trace
