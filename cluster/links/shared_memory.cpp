#include "cluster/links/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <string_view>

#include "base/host_memory.hpp"

namespace troupe::links {

namespace {

constexpr std::size_t slots_offset = 4096;
constexpr std::size_t slot_count = 1024;
constexpr std::size_t chunks_offset = slots_offset + slot_count * sizeof(std::uint32_t);
constexpr std::uint64_t alignment = 64;
constexpr const char* memory_name = "troupe";
/// Seals the size: a reader of memory that shrinks would get SIGBUS.
constexpr int fixed_size = F_SEAL_SHRINK | F_SEAL_GROW;

std::atomic_ref<std::uint32_t> slot_at(std::byte* all, std::uint32_t slot) {
  return std::atomic_ref(reinterpret_cast<std::uint32_t*>(all + slots_offset)[slot]);
}

/// Also returns null if address space is scarce: a link works without shared memory, but tables, stacks and buffers
/// need the space.
std::byte* map(int file, std::size_t size) {
  constexpr std::size_t rest = 3;  // times the size
  if (!has_address_space((1 + rest) * size)) return nullptr;
  void* all = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return all == MAP_FAILED ? nullptr : static_cast<std::byte*>(all);
}

std::uint64_t room_for(std::uint64_t size) { return (size + alignment - 1) / alignment * alignment; }

}  // namespace

std::unique_ptr<shared_memory_writer> shared_memory_writer::make(std::size_t bytes) {
  const std::size_t size = chunks_offset + bytes;
  std::unique_ptr<shared_memory_writer> made(new shared_memory_writer);
  made->file_ = descriptor::adopt(memfd_create(memory_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = made->file_.number();
  if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0 || fcntl(file, F_ADD_SEALS, fixed_size) != 0)
    return nullptr;
  made->all_ = map(file, size);
  if (made->all_ == nullptr) return nullptr;
  made->bytes_ = bytes;
  made->chunks_ = made->all_ + chunks_offset;
  made->name_ = {static_cast<std::uint32_t>(getpid()), static_cast<std::uint32_t>(file), random_nonce()};
  std::ranges::copy(made->name_.secret, made->all_);
  made->free_slots_.resize(slot_count);
  std::iota(made->free_slots_.rbegin(), made->free_slots_.rend(), 0U);
  return made;
}

shared_memory_writer::~shared_memory_writer() {
  if (all_ != nullptr) munmap(all_, chunks_offset + bytes_);
}

/// Frees the chunks that the reader has released.
void shared_memory_writer::collect() {
  std::erase_if(in_use_, [this](const auto& one) {
    const std::uint32_t slot = one.second.slot;
    if (slot_at(all_, slot).load(std::memory_order_acquire) == 0) return false;
    free_slots_.push_back(slot);
    return true;
  });
}

std::optional<shared_chunk> shared_memory_writer::take(std::uint64_t size) {
  if (size > bytes_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  collect();
  if (free_slots_.empty()) return std::nullopt;
  std::uint64_t offset = 0;
  for (const auto& [begin, chunk] : in_use_) {
    if (begin - offset >= size) break;
    offset = begin + room_for(chunk.size);
  }
  if (offset > bytes_ || bytes_ - offset < size) return std::nullopt;
  const shared_chunk taken{free_slots_.back(), offset, size};
  free_slots_.pop_back();
  slot_at(all_, taken.slot).store(0, std::memory_order_relaxed);
  in_use_.emplace(offset, taken);
  return taken;
}

std::shared_ptr<shared_memory_reader> shared_memory_reader::open(const shared_memory_name& name) {
  const std::string path = fmt::format("/proc/{}/fd/{}", name.process, name.file);
  // Opening anything else could block or have side effects.
  std::array<char, 64> target{};
  const auto length = readlink(path.c_str(), target.data(), target.size());
  const std::string expected = fmt::format("/memfd:{}", memory_name);
  if (length <= 0 || !std::string_view(target.data(), static_cast<std::size_t>(length)).starts_with(expected))
    return nullptr;
  const auto file = descriptor::adopt(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  struct stat about {};
  if (!file.is_open() || fstat(file.number(), &about) != 0) return nullptr;
  const auto size = static_cast<std::size_t>(about.st_size);
  if (size <= chunks_offset || (fcntl(file.number(), F_GET_SEALS) & fixed_size) != fixed_size) return nullptr;
  std::byte* all = map(file.number(), size);
  if (all == nullptr) return nullptr;
  std::shared_ptr<shared_memory_reader> made(new shared_memory_reader);
  made->all_ = all;
  made->bytes_ = size - chunks_offset;
  nonce there{};
  std::copy_n(all, there.size(), there.begin());
  return there == name.secret ? made : nullptr;
}

shared_memory_reader::~shared_memory_reader() {
  if (all_ != nullptr) munmap(all_, chunks_offset + bytes_);
}

std::shared_ptr<const std::byte> shared_memory_reader::read(const shared_chunk& chunk) {
  if (chunk.slot >= slot_count || chunk.offset % alignment != 0 || chunk.offset > bytes_ ||
      bytes_ - chunk.offset < chunk.size)
    return nullptr;
  return {all_ + chunks_offset + chunk.offset, [owner = shared_from_this(), slot = chunk.slot](const std::byte*) {
            slot_at(owner->all_, slot).store(1, std::memory_order_release);
          }};
}

}  // namespace troupe::links
