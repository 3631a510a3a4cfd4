#include "tests/emulated_cuda/meeting.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::emulated_cuda {

namespace {

constexpr std::size_t chunk = std::size_t{1} << 16;

std::uint64_t steps_of(std::size_t count) { return (count + chunk - 1) / chunk; }

}  // namespace

/// One rank's part of the shared memory, zero before it joins.
struct meeting::rank_part {
  std::atomic<std::uint64_t> joined;
  std::atomic<std::uint64_t> written;  ///< steps whose numbers it has written
  std::atomic<std::uint64_t> read;     ///< steps for which it has read all ranks' numbers
  char card[256];
  float numbers[chunk];
};

meeting::meeting(std::string name, int rank, int ranks, const std::string& card)
    : name_(std::move(name)), rank_(rank), ranks_(ranks), bytes_(sizeof(rank_part) * static_cast<std::size_t>(ranks)) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);  // needed between processes
  const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0) throw std::system_error(errno, std::generic_category(), "shm_open");
  const bool sized = ftruncate(file, static_cast<off_t>(bytes_)) == 0;
  void* memory = sized ? mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = errno;
  close(file);
  if (memory == MAP_FAILED) throw std::system_error(error, std::generic_category(), "mmap");
  parts_ = static_cast<rank_part*>(memory);
  std::memcpy(parts_[rank].card, card.data(), std::min(card.size(), sizeof parts_[rank].card));
  parts_[rank].joined = 1;
}

meeting::~meeting() {
  shm_unlink(name_.c_str());  // if some ranks never joined; else it is already gone
  munmap(parts_, bytes_);
}

bool meeting::all_at(std::atomic<std::uint64_t> rank_part::*counter, std::uint64_t step) const {
  return std::all_of(parts_, parts_ + ranks_, [&](const rank_part& part) { return part.*counter >= step; });
}

bool meeting::all_are_here() {
  if (!all_at(&rank_part::joined, 1)) return false;
  shm_unlink(name_.c_str());
  return true;
}

std::string meeting::find_duplicate() const {
  for (int i = 0; i < ranks_; ++i) {
    for (int j = 0; j < i; ++j) {
      if (std::memcmp(parts_[i].card, parts_[j].card, sizeof parts_[i].card) == 0) {
        return "Duplicate GPU detected : rank " + std::to_string(j) + " and rank " + std::to_string(i);
      }
    }
  }
  return {};
}

std::uint64_t meeting::next_sum(std::size_t count) {
  const std::uint64_t first = next_step_;
  next_step_ += steps_of(count);
  return first;
}

template <class Done>
bool meeting::wait_for(const std::function<bool()>& is_over, Done done) const {
  while (!done()) {
    if (is_over()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

void meeting::sum(std::uint64_t first_step, float* buffer, std::size_t count, const std::function<bool()>& is_over) {
  rank_part& mine = parts_[rank_];
  if (!wait_for(is_over, [&] { return mine.read == first_step; })) return;
  for (std::uint64_t i = 0; i < steps_of(count); ++i) {
    const std::uint64_t step = first_step + i;
    float* const numbers = buffer + i * chunk;
    const std::size_t size = std::min(chunk, count - i * chunk);
    if (!wait_for(is_over, [&] { return all_at(&rank_part::read, step); })) return;
    std::copy_n(numbers, size, mine.numbers);
    mine.written = step + 1;
    if (!wait_for(is_over, [&] { return all_at(&rank_part::written, step + 1); })) return;
    for (std::size_t k = 0; k < size; ++k) {
      float total = parts_[0].numbers[k];
      for (int r = 1; r < ranks_; ++r) total += parts_[r].numbers[k];
      numbers[k] = total;
    }
    mine.read = step + 1;
  }
}

}  // namespace troupe::emulated_cuda
