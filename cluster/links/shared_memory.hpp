// Shared memory that one process writes and another one on the same host reads. It carries large bodies without the two
// copies and the protocol of a socket.
//
// It has no name in any file system, and vanishes with the processes that hold it. The reader opens it through the
// writer's entry in /proc, so the two must be of one user (or the reader root) and in one pid namespace.
//
//   0      nonce [32]: the reader compares it, to be sure that this is the right memory
//   4096   u32 for each of 1024 slots: 0 while its chunk is in use; the reader writes 1 to release it
//   8192   chunks, each at a multiple of 64 bytes

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/descriptor.hpp"
#include "cluster/links/credentials.hpp"

namespace troupe::links {

/// The location of a chunk.
struct shared_chunk {
  std::uint32_t slot = 0;
  std::uint64_t offset = 0;  ///< from the first chunk
  std::uint64_t size = 0;
};

/// The address of the memory for a reader.
struct shared_memory_name {
  std::uint32_t process = 0;
  std::uint32_t file = 0;
  nonce secret{};
};

/// The writer's side. The system allocates pages at their first use.
class shared_memory_writer {
 public:
  /// Makes memory for `bytes` of chunks in all; null if the system refuses.
  static std::unique_ptr<shared_memory_writer> make(std::size_t bytes);
  ~shared_memory_writer();
  shared_memory_writer(const shared_memory_writer&) = delete;
  shared_memory_writer& operator=(const shared_memory_writer&) = delete;

  const shared_memory_name& name() const { return name_; }

  /// Allocates a chunk at the lowest free offset, so that pages in the cache are used again; null if there is no room.
  /// Thread: any.
  std::optional<shared_chunk> take(std::uint64_t size);

  /// Returns the chunk's memory, to write before it is announced to the reader.
  std::byte* memory_of(const shared_chunk& chunk) { return chunks_ + chunk.offset; }

 private:
  shared_memory_writer() = default;
  void collect();

  shared_memory_name name_;
  descriptor file_;
  std::byte* all_ = nullptr;
  std::byte* chunks_ = nullptr;
  std::size_t bytes_ = 0;

  std::mutex mutex_;
  std::map<std::uint64_t, shared_chunk> in_use_;  ///< by offset
  std::vector<std::uint32_t> free_slots_;
};

/// The reader's side. It checks everything that the peer says.
class shared_memory_reader : public std::enable_shared_from_this<shared_memory_reader> {
 public:
  /// Opens the memory, or null if it is not here, as on another host.
  static std::shared_ptr<shared_memory_reader> open(const shared_memory_name& name);
  ~shared_memory_reader();
  shared_memory_reader(const shared_memory_reader&) = delete;
  shared_memory_reader& operator=(const shared_memory_reader&) = delete;

  /// Returns the chunk's bytes, which keep the chunk in use; null if the chunk is not within the memory.
  std::shared_ptr<const std::byte> read(const shared_chunk& chunk);

 private:
  shared_memory_reader() = default;

  std::byte* all_ = nullptr;
  std::size_t bytes_ = 0;  ///< of all chunks together
};

}  // namespace troupe::links
