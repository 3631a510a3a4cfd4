// The ring: the last records of a process, in memory that it shares with a file.
//
// Each thread fills a chunk of its own, so that threads never wait for each other; claiming the next chunk is one
// atomic addition. When all have been used, the oldest is reused.

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "trace/record/board_call.hpp"
#include "trace/record/file_format.hpp"

namespace troupe::trace {

class ring {
 public:
  struct options {
    std::filesystem::path file;
    std::uint64_t bytes = std::uint64_t{16} << 20;  ///< for chunks
    std::uint32_t board_entries = 512;
  };

  /// Makes the file, with its room reserved. Errors: one line for the user.
  static result<std::unique_ptr<ring>> create(const options& how);
  ~ring();

  ring(const ring&) = delete;
  ring& operator=(const ring&) = delete;

  /// Writes a record without waiting. Thread: any.
  void append(const record& what) noexcept {
    place& mine = my_place();
    if (mine.owner != serial_ || mine.next == mine.end ||
        head().next_chunk.load(std::memory_order_relaxed) - mine.number > chunks_ / 2) [[unlikely]]
      take_chunk(mine);
    record* const to = mine.next++;
    if (record* const later = to + lines_ahead; later < mine.end)
      __builtin_prefetch(later, 1);  // its line is on its way before it is needed
    const auto write = [](auto& there, auto number) {
      std::atomic_ref(there).store(number, std::memory_order_relaxed);
    };
    write(to->begin, what.begin);
    write(to->sent, what.sent);
    write(to->id, what.id);
    write(to->cause, what.cause);
    write(to->busy48_type16, what.busy48_type16);
    write(to->queued48_actor16, what.queued48_actor16);
    write(to->step48_aux16, what.step48_aux16);
    std::atomic_ref(to->bytes32_kind8_flags8_stamp16)
        .store(what.bytes32_kind8_flags8_stamp16 | mine.stamp, std::memory_order_release);
  }

  file_head& head() { return *reinterpret_cast<file_head*>(memory_); }
  const file_head& head() const { return *reinterpret_cast<const file_head*>(memory_); }

  /// Sets the text with which readers interpret numbers. Requires: it has at most `metadata_bytes`. Thread: one at a
  /// time.
  void set_metadata(const std::string& json);

  /// Makes an entry for a new actor, or null if all are used. Thread: any.
  board_entry* add_actor(std::uint16_t actor, std::uint16_t incarnation, const std::string& name);
  /// The same for an actor's calls.
  board_call* add_call(std::uint16_t actor);

  /// Returns the entries of live actors. Thread: any.
  std::vector<const board_entry*> actors() const;
  /// Returns the actors' open calls. Thread: any.
  std::vector<std::pair<std::uint16_t, call_state>> calls() const;

  std::uint64_t chunks() const { return chunks_; }
  chunk_head& chunk(std::uint64_t number) const {
    return *reinterpret_cast<chunk_head*>(memory_ + chunks_begin_ + number % chunks_ * chunk_bytes);
  }
  // Copies, from any thread, while others write.
  /// Head and metadata.
  std::string copy_head() const { return copy(0, head_bytes + metadata_bytes); }
  std::string copy_board() const {
    return copy(head_bytes + metadata_bytes, chunks_begin_ - head_bytes - metadata_bytes);
  }
  std::string copy_chunk(std::uint64_t number) const {
    return copy(chunks_begin_ + number % chunks_ * chunk_bytes, chunk_bytes);
  }
  /// The whole file, marked as a copy.
  std::string copy() const;

  const std::filesystem::path& file() const { return file_; }

 private:
  /// Lines that are fetched before they are needed: some actors write several records at once, and memory may be busy.
  static constexpr std::size_t lines_ahead = 12;

  /// Where a thread writes next.
  struct place {
    std::uint64_t owner = 0;
    record* next = nullptr;
    record* end = nullptr;
    std::uint64_t number = 0;
    std::uint64_t stamp = 0;
  };

  ring() = default;
  place& my_place() const {
    constexpr std::size_t places = 4;  // a test may have several nodes, and so rings, in a process
    thread_local std::array<place, places> mine;
    return mine[serial_ % places];
  }
  void take_chunk(place& mine) noexcept;
  /// Claims a free entry of the board; the caller fills it and then sets its state. Null: the board is full.
  std::byte* take_entry();
  std::string copy(std::uint64_t first, std::uint64_t size) const;

  std::filesystem::path file_;
  std::byte* memory_ = nullptr;
  std::uint64_t size_ = 0;
  std::uint64_t chunks_begin_ = 0;
  std::uint64_t chunks_ = 0;
  std::uint64_t serial_ = 0;  ///< distinguishes the rings of one process
};

}  // namespace troupe::trace
