#include "trace/record/ring.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <random>
#include <span>

#include "base/assert.hpp"
#include "base/descriptor.hpp"
#include "base/digest.hpp"

namespace troupe::trace {

namespace {

std::atomic<std::uint64_t> next_serial = 1;

std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) { return (n + unit - 1) / unit * unit; }

tl::unexpected<troupe::fault> failed(const std::filesystem::path& file, const std::string& what, int code) {
  return bad_input("{}: {}: {}", file.string(), what, std::strerror(code));
}

std::atomic_ref<std::uint64_t> word_at(std::byte* where) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(where));
}

/// Writes word by word, the last one padded with zeros, because others may be reading: memcpy would be a race.
void write(const void* bytes, std::size_t size, std::byte* to) {
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(bytes) + at, std::min(sizeof word, size - at));
    word_at(to + at).store(word, std::memory_order_relaxed);
  }
}

/// The first touch of a page costs as much as a hundred records, and a ring needs a long time to touch all of its
/// pages. So pages are filled in advance by one call, for which file systems may use large pages, and mapped; of a
/// large ring only this many bytes. A failure here only costs time later.
constexpr std::uint64_t early_bytes_max = std::uint64_t{32} << 20;

void fill_pages(int file, std::uint64_t size) {
  static std::array<std::byte, std::size_t{1} << 16> zeros{};
  std::vector<iovec> parts;
  for (std::uint64_t at = 0; at < std::min(size, early_bytes_max); at += zeros.size())
    parts.push_back({zeros.data(), std::min<std::uint64_t>(zeros.size(), size - at)});
  [[maybe_unused]] const ssize_t written = ::pwritev(file, parts.data(), static_cast<int>(parts.size()), 0);
}

void map_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::uint64_t size) {
#ifdef MADV_POPULATE_WRITE  // Linux 5.14
  ::madvise(memory, std::min(size, early_bytes_max), MADV_POPULATE_WRITE);
#endif
}

}  // namespace

result<std::unique_ptr<ring>> ring::create(const options& how) {
  std::unique_ptr<ring> made(new ring);
  made->chunks_begin_ = round_up(head_bytes + metadata_bytes + how.board_entries * board_entry_bytes, chunk_bytes);
  // A thread abandons its chunk when half of the ring has been claimed since: that must take a while.
  constexpr std::uint64_t fewest_chunks = 16;
  made->chunks_ = std::max(fewest_chunks, how.bytes / chunk_bytes);
  made->size_ = made->chunks_begin_ + made->chunks_ * chunk_bytes;
  const auto opened = descriptor::adopt(::open(how.file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const int file = opened.number();
  if (!opened.is_open()) return failed(how.file, "cannot be made", errno);
  made->file_ = how.file;
  // Without reserved room, a write to it would raise SIGBUS once the disk is full.
  if (const int code = ::posix_fallocate(file, 0, static_cast<off_t>(made->size_)); code != 0) {
    ::unlink(how.file.c_str());
    return failed(how.file, fmt::format("there is no room for a trace of {} bytes", made->size_), code);
  }
  fill_pages(file, made->size_);
  void* const memory = ::mmap(nullptr, made->size_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    const int code = errno;
    ::unlink(how.file.c_str());
    return failed(how.file, "cannot be mapped", code);
  }
  map_pages(memory, made->size_);
  made->memory_ = static_cast<std::byte*>(memory);
  made->serial_ = next_serial.fetch_add(1);

  auto& head = *new (memory) file_head{};
  head.version = format_version;
  head.head_size = head_bytes;
  head.metadata_size = metadata_bytes;
  head.board_entries = how.board_entries;
  head.chunk_size = chunk_bytes;
  head.record_size = sizeof(record);
  head.chunks = made->chunks_;
  std::random_device random;
  head.process = std::uint64_t{random()} << 32 | random();
  head.begin = sample_clocks();
  head.pid = static_cast<std::uint32_t>(::getpid());
  head.magic = ring_magic;
  return made;
}

ring::~ring() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

void ring::take_chunk(place& mine) noexcept {
  if (mine.owner == serial_) {
    chunk_head& done = chunk(mine.number - 1);
    if (done.number.load(std::memory_order_relaxed) == mine.number) done.closed.store(1, std::memory_order_release);
  }
  const std::uint64_t before = head().next_chunk.fetch_add(1, std::memory_order_relaxed);
  chunk_head& taken = chunk(before);
  for (std::size_t i = 0; i <= lines_ahead; ++i) __builtin_prefetch(&taken + i, 1);  // `append` writes there next
  taken.number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);  // readers see that it changes before it does
  thread_local const auto thread = static_cast<std::uint32_t>(::syscall(SYS_gettid));
  taken.thread.store(thread, std::memory_order_relaxed);
  taken.closed.store(0, std::memory_order_relaxed);
  const clock_sample now = sample_clocks();
  write(&now, sizeof now, reinterpret_cast<std::byte*>(&taken.begin));
  taken.number.store(before + 1, std::memory_order_release);
  mine.owner = serial_;
  mine.number = before + 1;
  mine.next = reinterpret_cast<record*>(&taken) + 1;
  mine.end = mine.next + records_per_chunk;
  mine.stamp = std::uint64_t{stamp_of(mine.number)} << 48;
}

std::vector<const board_entry*> ring::actors() const {
  std::vector<const board_entry*> all;
  const std::byte* entry = memory_ + head_bytes + metadata_bytes;
  for (std::uint32_t i = 0; i < head().board_entries; ++i, entry += board_entry_bytes) {
    const auto* mine = reinterpret_cast<const board_entry*>(entry);
    if (mine->state.load(std::memory_order_acquire) == 1) all.push_back(mine);
  }
  return all;
}

std::string ring::copy(std::uint64_t first, std::uint64_t size) const {
  std::string bytes(size, '\0');
  for (std::uint64_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = word_at(memory_ + first + at).load(std::memory_order_relaxed);
    std::memcpy(bytes.data() + at, &word, sizeof word);
  }
  return bytes;
}

std::string ring::copy() const {
  const clock_sample when = sample_clocks();
  std::string bytes = copy(0, size_);
  mark_as_copy(bytes, when);
  return bytes;
}

void mark_as_copy(std::string& bytes, const clock_sample& when) {
  if (bytes.size() >= head_bytes) std::memcpy(bytes.data() + offsetof(file_head, seen), &when, sizeof when);
}

void ring::set_metadata(const std::string& json) {
  TROUPE_ASSERT(json.size() <= metadata_bytes);
  head().metadata_length.store(0, std::memory_order_release);
  write(json.data(), json.size(), memory_ + head_bytes);
  head().metadata_digest.store(digest_of(std::as_bytes(std::span(json))), std::memory_order_relaxed);
  head().metadata_length.store(static_cast<std::uint32_t>(json.size()), std::memory_order_release);
}

std::byte* ring::take_entry() {
  constexpr std::uint32_t taken = 3;  // by a thread that is about to fill it
  std::byte* entry = memory_ + head_bytes + metadata_bytes;
  for (std::uint32_t i = 0; i < head().board_entries; ++i, entry += board_entry_bytes) {
    std::uint32_t free = 0;
    if (reinterpret_cast<board_entry*>(entry)->state.compare_exchange_strong(free, taken)) return entry;
  }
  return nullptr;
}

board_entry* ring::add_actor(std::uint16_t actor, std::uint16_t incarnation, const std::string& name) {
  constexpr std::uint32_t alive = 1;
  auto* const mine = reinterpret_cast<board_entry*>(take_entry());
  if (mine == nullptr) {
    head().board_full.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  mine->actor = actor;
  mine->incarnation = incarnation;
  name.copy(mine->name.data(), mine->name.size() - 1);
  mine->state.store(alive, std::memory_order_release);
  return mine;
}

board_call* ring::add_call(std::uint16_t actor) {
  auto* const mine = reinterpret_cast<board_call*>(take_entry());
  if (mine == nullptr) return nullptr;
  mine->actor = actor;
  mine->state.store(board_call::state_of_calls, std::memory_order_release);
  return mine;
}

std::vector<std::pair<std::uint16_t, call_state>> ring::calls() const {
  std::vector<std::pair<std::uint16_t, call_state>> all;
  for (std::uint64_t i = 0; i < head().board_entries; ++i) {
    const std::uint64_t at = head_bytes + metadata_bytes + i * board_entry_bytes;
    const auto* mine = reinterpret_cast<const board_call*>(memory_ + at);
    if (mine->state.load(std::memory_order_acquire) != board_call::state_of_calls) continue;
    if (const auto call = read_call(copy(at, board_entry_bytes).data())) all.push_back(*call);
  }
  return all;
}

}  // namespace troupe::trace
