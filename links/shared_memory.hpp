// Memory that one process fills and another one of the same host reads: what is large goes through it, without the two
// copies and the protocol of a socket.
//
// It has no name in any file system and ends with the processes that hold it, however they end. The reader finds it
// through the writer's entry in /proc, so the two must be of one user (or the reader root) and see the same processes.
//
//   0      nonce [32]: the reader compares it, so that it cannot take another memory for this one
//   4096   u32 for each of 1024 slots: 0 while its chunk is in use; the reader writes 1 when it has let go
//   8192   chunks, each at a multiple of 64 bytes

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "links/credentials.hpp"

namespace troupe::links {

/// Where a chunk is.
struct shared_chunk {
  std::uint32_t slot = 0;
  std::uint64_t offset = 0;  ///< from the first chunk's place
  std::uint64_t size = 0;
};

/// How a reader finds the memory.
struct shared_memory_name {
  std::uint32_t process = 0;
  std::uint32_t file = 0;
  nonce secret{};
};

/// The writer's side. Pages are taken from the system when they are first used.
class shared_memory_writer {
 public:
  /// For chunks of `bytes` in all. Null if the system has none to give.
  static std::unique_ptr<shared_memory_writer> make(std::size_t bytes = std::size_t{64} << 20);
  ~shared_memory_writer();
  shared_memory_writer(const shared_memory_writer&) = delete;
  shared_memory_writer& operator=(const shared_memory_writer&) = delete;

  const shared_memory_name& name() const { return name_; }

  /// A chunk that nobody uses, at the lowest place that has room: so the same pages, which are warm, are used again.
  /// Null if there is no room. From any thread.
  std::optional<shared_chunk> take(std::uint64_t size);

  /// Where to write what it is to hold, until it is announced to the reader.
  std::byte* memory_of(const shared_chunk& chunk) { return chunks_ + chunk.offset; }

 private:
  shared_memory_writer() = default;
  void collect();

  shared_memory_name name_;
  int file_ = -1;
  std::byte* all_ = nullptr;
  std::byte* chunks_ = nullptr;
  std::size_t bytes_ = 0;

  std::mutex mutex_;
  std::map<std::uint64_t, shared_chunk> in_use_;  ///< by offset
  std::vector<std::uint32_t> free_slots_;
};

/// The reader's side. What it is told comes from a peer, and is not believed.
class shared_memory_reader : public std::enable_shared_from_this<shared_memory_reader> {
 public:
  /// Null if there is no such memory here, as on another host.
  static std::shared_ptr<shared_memory_reader> open(const shared_memory_name& name);
  ~shared_memory_reader();
  shared_memory_reader(const shared_memory_reader&) = delete;
  shared_memory_reader& operator=(const shared_memory_reader&) = delete;

  /// The chunk's bytes; whoever keeps them keeps the chunk. Null if it does not lie in the memory.
  std::shared_ptr<const std::byte> read(const shared_chunk& chunk);

 private:
  shared_memory_reader() = default;

  std::byte* all_ = nullptr;
  std::size_t bytes_ = 0;  ///< of chunks
};

}  // namespace troupe::links
