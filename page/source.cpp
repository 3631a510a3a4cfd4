#define XXH_INLINE_ALL
#include "page/source.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <system_error>

#include "base/descriptor.hpp"

namespace troupe::page {

namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

/// A value that changes with the file's content. A ring is written through mapped memory, which does not change the
/// file's time; but its head counts chunks, and its board counts each actor's messages.
std::uint64_t fingerprint_of(const fs::path& file) {
  constexpr std::size_t board_bytes_max = 256 << 10;
  std::vector<char> begin(trace::head_bytes + trace::metadata_bytes + board_bytes_max);
  const auto opened = descriptor::adopt(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open()) return 0;
  const ssize_t size = read(opened.number(), begin.data(), begin.size());
  std::error_code error;
  const std::uint64_t length = fs::file_size(file, error);
  return XXH3_64bits_withSeed(begin.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)), length);
}

/// Extends a recording under way to the time of reading, so that idle time is also visible.
bool bring_to(std::chrono::system_clock::time_point looked, trace::recording& what) {
  const trace::nanoseconds now = std::chrono::nanoseconds(looked.time_since_epoch()).count() - what.realtime_begin_ns;
  bool live = false;
  for (trace::process_info& one : what.processes) {
    if (!trace::is_recording(one)) continue;
    live = true;
    one.last = std::max(one.last, now);
  }
  return live;
}

}  // namespace

recorded::fingerprint recorded::look() const {
  fingerprint all;
  for (const fs::path& path : from_.paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      all[path] = fingerprint_of(path);
      continue;
    }
    for (fs::recursive_directory_iterator one(path, error), end; !error && one != end; one.increment(error))
      if (one->is_regular_file(error)) all[one->path()] = fingerprint_of(one->path());
  }
  return all;
}

reading recorded::latest() {
  const auto begin = clock::now();
  if (begin < next_look_) return newest_;
  const auto looked = std::chrono::system_clock::now();  // events during the reading may be missed
  fingerprint files = look();
  if (!newest_.what || !newest_.problem.empty() || files != seen_) {
    newest_.problem.clear();
    if (auto read = trace::read_recording(from_)) {
      newest_.what = read_ = std::make_shared<trace::recording>(std::move(*read));
      ++newest_.generation;
    } else {
      newest_.problem = read.error().message;  // the last recording stays
    }
    seen_ = std::move(files);
  }
  if (read_) newest_.live = bring_to(looked, *read_);
  const auto end = clock::now();
  next_look_ = end + std::max<clock::duration>(pace_.least, (end - begin) * pace_.rest);
  return newest_;
}

}  // namespace troupe::page
