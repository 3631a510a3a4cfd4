#include "trace/record/follower.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/host.hpp"
#include "base/input_files.hpp"

namespace troupe::trace {

namespace {

/// Limits the size that a damaged head can claim.
constexpr std::uint64_t before_chunks_max = head_bytes + metadata_bytes + (std::uint64_t{1} << 16) * board_entry_bytes;

tl::unexpected<troupe::fault> exceeded(const std::filesystem::path& file, const memory_budget& budget) {
  return bad_input("{}: {}", file.string(), budget.problem());
}

}  // namespace

result<ring_follower> ring_follower::open(const std::filesystem::path& file, memory_budget& budget) {
  ring_follower made;
  made.path_ = file;
  made.file_ = descriptor::adopt(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!made.file_.is_open()) return bad_input("{}: cannot be read: {}", file.string(), std::strerror(errno));
  remember_input(file.string(), "a file of the recording that is read");
  TROUPE_TRY(head, parse_trace_file(made.read(0, head_bytes + metadata_bytes), file, budget));
  made.chunks_begin_ = std::min(head.chunks_begin, before_chunks_max);
  // The number of chunks in the file, whatever the head claims.
  struct stat about {};
  const std::uint64_t size = ::fstat(made.file_.number(), &about) == 0 ? static_cast<std::uint64_t>(about.st_size) : 0;
  const std::uint64_t there = size > made.chunks_begin_ ? (size - made.chunks_begin_) / chunk_bytes : 0;
  made.chunks_ = std::max<std::uint64_t>(std::min(head.chunk_capacity, there), 1);
  return made;
}

/// Reads up to `size` bytes at `at`: as many as the file has.
std::string ring_follower::read(std::uint64_t at, std::uint64_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(file_.number(), bytes.data() + done, size - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

/// Returns false if no more records of this chunk will come.
bool ring_follower::take_chunk(open_chunk& one, trace_file& to, memory_budget& budget) {
  const std::string bytes = read(chunks_begin_ + one.index % chunks_ * chunk_bytes, chunk_bytes);
  if (bytes.size() < chunk_bytes) return false;
  std::uint64_t number = 0;
  std::uint32_t closed = 0;
  std::memcpy(&number, bytes.data() + offsetof(chunk_head, number), sizeof number);
  std::memcpy(&closed, bytes.data() + offsetof(chunk_head, closed), sizeof closed);
  if (number > one.index + 1) {  // the slot was reused for a later chunk
    lost_ += closed != 0 || one.taken == 0 ? records_per_chunk - one.taken : 0;
    return false;
  }
  if (number != one.index + 1) return true;  // the slot is being reused
  read_chunk(bytes.data(), to, budget);
  if (budget.exceeded()) return true;
  std::vector<record>& records = to.chunks.at(number).records;
  const std::size_t there = records.size();
  records.erase(records.begin(), records.begin() + static_cast<std::ptrdiff_t>(std::min(one.taken, there)));
  one.taken = std::max(one.taken, there);
  return closed == 0 && one.taken < records_per_chunk;
}

result<trace_file> ring_follower::take(memory_budget& budget) {
  auto made = parse_trace_file(read(0, chunks_begin_), path_, budget);
  if (!made) return made;
  made->warnings.clear();  // they only report missing chunks
  if (made->metadata_fault.empty()) {
    metadata_ = made->metadata;
  } else if (!metadata_.empty()) {
    made->metadata = metadata_;
    made->metadata_fault.clear();
  }
  const std::uint64_t oldest = made->next_chunk - std::min(made->next_chunk, chunks_);
  if (next_ < oldest) {
    if (has_begun_) lost_ += (oldest - next_) * records_per_chunk;
    next_ = oldest;
  }
  has_begun_ = true;
  if (!budget.take((std::max(made->next_chunk, next_) - next_) * sizeof(open_chunk))) return exceeded(path_, budget);
  for (; next_ < made->next_chunk; ++next_) open_.push_back({next_, 0});
  std::erase_if(open_, [&](open_chunk& one) { return !budget.exceeded() && !take_chunk(one, *made, budget); });
  if (budget.exceeded()) return exceeded(path_, budget);
  const bool is_copy = made->seen.ticks != 0;
  is_live_ = !is_copy && is_alive(*made).value_or(false);
  return made;
}

result<follower> follower::open(sources from) {
  follower made(std::move(from));
  TROUPE_DO(made.find_new());
  return made;
}

result<void> follower::find_new() {
  TROUPE_TRY(paths, find_trace_files(from_));
  for (const std::filesystem::path& path : paths) {
    if (!known_.insert(path).second) continue;
    if (path.extension() == ".log") {
      TROUPE_TRY(log, read_trace_file(path, budget_));
      logs_.push_back(std::move(log));
    } else {
      TROUPE_TRY(ring, ring_follower::open(path, budget_));
      rings_.push_back(std::move(ring));
    }
  }
  return {};
}

result<std::vector<trace_file>> follower::take_files() {
  if (!newer_.empty()) {
    from_.run = newer_.front().run;
    return std::exchange(newer_, {});
  }
  // Files may have disappeared or appeared during the search.
  if (const auto found = find_new(); !found && rings_.empty() && logs_.empty()) return tl::unexpected(found.error());
  memory_budget budget = std::exchange(budget_, memory_budget(from_.memory_bytes_max));
  std::vector<trace_file> files;
  for (ring_follower& ring : rings_) {
    TROUPE_TRY(taken, ring.take(budget));
    files.push_back(std::move(taken));
  }
  // The ring of a running process holds all records of its log, except older ones.
  for (trace_file& log : std::exchange(logs_, {})) files.push_back(std::move(log));
  return files;
}

/// If a newer attempt has begun than the one that is followed, keeps its files for the next `take`.
void follower::set_newer_aside(std::vector<trace_file>& files) {
  if (!follows_attempts_ || from_.run == 0) return;
  const auto attempts = attempts_in(files);
  if (attempts.empty() || attempts.back().run == from_.run) return;
  for (trace_file& one : files)
    if (one.run == attempts.back().run) newer_.push_back(std::move(one));
  std::erase_if(files, [this](const trace_file& one) { return one.run != from_.run; });
}

result<recording> follower::take() {
  TROUPE_TRY(files, take_files());
  set_newer_aside(files);
  if (files.empty()) return recording{};
  auto made = make_recording(std::move(files), from_);
  if (made && from_.run == 0) from_.run = made->run;
  return made;
}

std::uint64_t follower::lost() const {
  std::uint64_t all = 0;
  for (const ring_follower& ring : rings_) all += ring.lost();
  return all;
}

bool follower::is_live() const { return !newer_.empty() || std::ranges::any_of(rings_, &ring_follower::is_live); }

}  // namespace troupe::trace
