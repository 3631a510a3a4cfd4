// How fast criteo:FILE is read: plain, .gz and .zst; first counting the rows, then a whole epoch of batches.
//
//   bench_reading [ROWS] [FOLDER] [THREADS]
//
// Writes a generated file like the public one (about 240 bytes a row, 1,000,000 rows by default) to FOLDER, by default
// the temporary folder, and removes it. The file is in the page cache when it is read. An epoch is read by one thread,
// then by THREADS (2 by default), each of which reads the next batch. "cpu" is the time of all threads together,
// including the data set's readers, so that rows per CPU second are the rate of one core.

#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "made_rows.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe {
namespace {

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "bench_reading: {}\n", why);
  std::exit(1);
}

// -- the file --------------------------------------------------------------------------------------------------------

class made_file {
 public:
  made_file(const std::filesystem::path& folder, const std::string& name, std::string_view content)
      : path_(folder / name) {
    std::ofstream file(path_, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
    if (!file.flush()) give_up(fmt::format("cannot write {} bytes to {}", content.size(), path_.string()));
  }
  made_file(const made_file&) = delete;
  made_file& operator=(const made_file&) = delete;
  ~made_file() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string gzip(const std::string& text) {
  z_stream stream{};
  constexpr int gzip_window = 16 + MAX_WBITS;
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY);
  std::string made(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<unsigned char*>(made.data());
  stream.avail_out = static_cast<uInt>(made.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) give_up("cannot compress");
  made.resize(stream.total_out);
  deflateEnd(&stream);
  return made;
}

std::string zstd(const std::string& text) {
  std::string made(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(made.data(), made.size(), text.data(), text.size(), 3);
  if (ZSTD_isError(size) != 0) give_up("cannot compress");
  made.resize(size);
  return made;
}

// -- the measurement -------------------------------------------------------------------------------------------------

struct stopwatch {
  using clock = std::chrono::steady_clock;

  static double cpu_now() {
    timespec now{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  }

  void report(const std::string& what, double rows, double bytes) const {
    const double cpu = cpu_now() - cpu_begin;
    const double wall = std::chrono::duration<double>(clock::now() - wall_begin).count();
    fmt::print(
        "  {:<10} wall {:6.3f} s  {:>10.0f} rows/s  {:6.0f} MB/s    cpu {:6.3f} s  {:>10.0f} rows/s  {:6.0f} MB/s\n",
        what, wall, rows / wall, bytes / wall * 1e-6, cpu, rows / cpu, bytes / cpu * 1e-6);
  }

  double cpu_begin = cpu_now();
  clock::time_point wall_begin = clock::now();
};

void take_epoch(const model::dataset& data, std::size_t threads, std::size_t rows, std::size_t text_bytes) {
  const stopwatch reading;
  std::atomic<std::uint64_t> next = 0;
  std::atomic<std::size_t> seen = 0;
  const auto take = [&] {
    for (std::uint64_t step = next++; step < data.steps_per_epoch(); step = next++) {
      const auto taken = data.train_batch(step, 0);
      if (!taken) give_up(taken.error().message);
      seen += taken->size;
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(take);
    take();
  }
  reading.report(fmt::format("epoch, {}", threads), static_cast<double>(rows), static_cast<double>(text_bytes));
  if (seen != rows) give_up(fmt::format("{} rows in an epoch of {}", seen.load(), rows));
}

void measure(const char* name, const std::string& path, std::size_t rows, std::size_t text_bytes, std::size_t threads) {
  fmt::print("{}\n", name);
  const auto job = model::parse_job({{"data", "criteo:" + path}, {"trainers", "1"}, {"batch-size", "1024"}});
  if (!job) give_up(job.error().message);
  const stopwatch counting;
  const auto data = model::open_dataset(*job);
  if (!data) give_up(data.error().message);
  counting.report("counting", static_cast<double>(rows), static_cast<double>(text_bytes));

  take_epoch(**data, 1, rows, text_bytes);
  if (threads > 1) take_epoch(**data, threads, rows, text_bytes);
}

int run(int argc, char** argv) {
  const std::size_t rows = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  constexpr std::size_t rows_min = 1024;
  constexpr std::size_t rows_max = 10'000'000;
  if (rows < rows_min || rows > rows_max) give_up(fmt::format("ROWS must be between {} and {}", rows_min, rows_max));
  const auto folder = argc > 2 ? std::filesystem::path(argv[2]) : std::filesystem::temp_directory_path();
  const std::size_t threads = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 2;
  constexpr std::size_t threads_max = 64;
  if (threads < 1 || threads > threads_max) give_up(fmt::format("THREADS must be between 1 and {}", threads_max));
  const std::string text = bench::criteo_text(rows);
  fmt::print("{} rows, {:.1f} bytes a row; MB are those of the text\n", rows,
             static_cast<double>(text.size()) / static_cast<double>(rows));
  const auto file = [&folder](const std::string& name, const std::string& content) {
    return made_file(folder, fmt::format("troupe_bench_{}_{}", ::getpid(), name), content);
  };
  measure("plain", file("plain", text).path(), rows, text.size(), threads);
  measure("gzip", file("gzip", gzip(text)).path(), rows, text.size(), threads);
  measure("zstd", file("zstd", zstd(text)).path(), rows, text.size(), threads);
  return 0;
}

}  // namespace
}  // namespace troupe

int main(int argc, char** argv) { return troupe::run(argc, argv); }
