#include "trace/record/log_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "base/descriptor.hpp"
#include "base/digest.hpp"

namespace troupe::trace {

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;
constexpr std::uint64_t jobs_bytes_max = std::uint64_t{256} << 20;
constexpr std::size_t jobs_max = std::size_t{1} << 16;
/// Making contents may take only as long as filling some chunks, which must be saved before they are reused.
constexpr std::uint64_t bytes_a_turn = std::uint64_t{4} << 20;
constexpr std::size_t jobs_a_turn = 1024;
constexpr std::chrono::milliseconds look_interval{5};
constexpr int compression_level = 1;  // the fastest level that shrinks records to a third

}  // namespace

log_writer::log_writer(ring& what, std::filesystem::path file) : ring_(what), file_(std::move(file)) {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor_ < 0) {
    problem_ = fmt::format("{}: cannot be made: {}", file_.string(), std::strerror(errno));
    return;
  }
  write_head();
  thread_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
}

void log_writer::finish() {
  if (descriptor_ < 0) return;
  thread_.request_stop();
  wake_.notify_all();
  thread_.join();
  while (take_contents(bytes_a_turn)) {
    take_chunks(false);
    if (raw_contents_.size() >= block_bytes) write_block(block_kind::contents, std::exchange(raw_contents_, {}));
  }
  take_chunks(true);
  if (!raw_chunks_.empty()) write_block(block_kind::chunks, raw_chunks_);
  if (!raw_contents_.empty()) write_block(block_kind::contents, raw_contents_);
  write_block(block_kind::board, ring_.copy_board());
  write_head();
  ::close(std::exchange(descriptor_, -1));
}

void log_writer::keep(content_job job) {
  const std::lock_guard lock(mutex_);
  if (jobs_.size() >= jobs_max || jobs_bytes_ + job.bytes > jobs_bytes_max || !problem_.empty()) {
    ring_.head().contents_lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  jobs_bytes_ += job.bytes;
  jobs_.push_back(std::move(job));
}

std::string log_writer::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void log_writer::follow(const std::stop_token& stop) {
  constexpr int looks_per_flush = 20;
  bool has_more = false;
  for (int look = 1; !stop.stop_requested(); ++look) {
    if (!has_more) {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, stop, look_interval, [] { return false; });
    }
    has_more = take_contents(bytes_a_turn);
    take_chunks(false);
    const bool flush = !has_more && look % looks_per_flush == 0;
    if (raw_chunks_.size() >= block_bytes || (flush && !raw_chunks_.empty()))
      write_block(block_kind::chunks, std::exchange(raw_chunks_, {}));
    if (raw_contents_.size() >= block_bytes || (flush && !raw_contents_.empty()))
      write_block(block_kind::contents, std::exchange(raw_contents_, {}));
    if (flush) write_head();
  }
}

bool log_writer::take_contents(std::uint64_t bytes_max) {
  std::uint64_t bytes = 0;
  for (std::size_t taken = 0; bytes < bytes_max && taken < jobs_a_turn; ++taken) {
    content_job job;
    {
      const std::lock_guard lock(mutex_);
      if (jobs_.empty()) return false;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    write_content(job.make(), raw_contents_);
    ++contents_in_block_;
    bytes += job.bytes;
    {
      const std::lock_guard lock(mutex_);
      jobs_bytes_ -= job.bytes;
    }
  }
  return true;
}

/// Copies the chunks that are complete, or abandoned by their threads (see `ring`).
void log_writer::take_chunks(bool all) {
  const std::uint64_t end = ring_.head().next_chunk.load(std::memory_order_acquire);
  for (; first_not_seen_ < end; ++first_not_seen_) open_.push_back(first_not_seen_);
  std::erase_if(open_, [&](std::uint64_t index) {
    const chunk_head& from = ring_.chunk(index);
    const std::uint64_t number = from.number.load(std::memory_order_acquire);
    const std::uint64_t age = end - index;
    if (number != index + 1) {
      const bool is_lost = number > index + 1 || age > ring_.chunks();
      if (is_lost) ring_.head().chunks_lost.fetch_add(1, std::memory_order_relaxed);
      return is_lost;
    }
    if (!all && from.closed.load(std::memory_order_acquire) == 0 && age < ring_.chunks() * 3 / 4) return false;
    const std::size_t begin = raw_chunks_.size();
    raw_chunks_ += ring_.copy_chunk(index);
    std::atomic_thread_fence(std::memory_order_acquire);             // the copy is complete before the check
    if (from.number.load(std::memory_order_acquire) != index + 1) {  // reused during the copy
      raw_chunks_.resize(begin);
      ring_.head().chunks_lost.fetch_add(1, std::memory_order_relaxed);
    }
    return true;
  });
}

void log_writer::write_block(block_kind what, const std::string& raw) {
  std::string packed(ZSTD_compressBound(raw.size()), '\0');
  packed.resize(ZSTD_compress(packed.data(), packed.size(), raw.data(), raw.size(), compression_level));
  const std::uint64_t digest = digest_of(std::as_bytes(std::span(packed)));
  const block_head head{block_magic, what, packed.size(), raw.size(), digest};
  const std::uint64_t contents = what == block_kind::contents ? std::exchange(contents_in_block_, 0) : 0;
  if (problem().empty() && write_all(reinterpret_cast<const char*>(&head), sizeof head) &&
      write_all(packed.data(), packed.size()))
    return;
  if (what == block_kind::chunks)
    ring_.head().chunks_lost.fetch_add(raw.size() / chunk_bytes, std::memory_order_relaxed);
  ring_.head().contents_lost.fetch_add(contents, std::memory_order_relaxed);
}

/// Writes the current head and metadata in place, each time they change.
void log_writer::write_head() {
  std::string copy = ring_.copy_head();
  std::copy(log_magic.begin(), log_magic.end(), copy.begin());
  auto* const head = reinterpret_cast<file_head*>(copy.data());
  head->chunks = 0;
  if (::pwrite(descriptor_, copy.data(), copy.size(), 0) < 0 && problem().empty()) {
    const std::lock_guard lock(mutex_);
    problem_ = fmt::format("{}: cannot be written: {}", file_.string(), std::strerror(errno));
  }
  if (::lseek(descriptor_, 0, SEEK_CUR) == 0) ::lseek(descriptor_, static_cast<off_t>(copy.size()), SEEK_SET);
}

bool log_writer::write_all(const char* bytes, std::size_t size) {
  const int code = troupe::write_all(descriptor_, {bytes, size});
  if (code == 0) return true;
  const std::lock_guard lock(mutex_);
  if (problem_.empty())
    problem_ =
        fmt::format("{}: cannot be written: {}; what came after is not kept", file_.string(), std::strerror(code));
  return false;
}

}  // namespace troupe::trace
