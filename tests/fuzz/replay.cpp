// The fuzz targets without libFuzzer: replays files, then a fixed number of mutations of them, drawn from a fixed seed.
// So every compiler and sanitizer tests what fuzzing has found.
//
//   fuzz_replay TARGET FOLDER [MUTATIONS]     replays the files of FOLDER in the order of their names
//   fuzz_replay TARGET --make-corpus FOLDER   writes the target's seeds there
//
// An input that ends the process is written to the working directory as crash-NAME.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

#include "tests/fuzz/target.hpp"

// Defined only with a sanitizer.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*)());

namespace troupe::fuzz {
namespace {

constexpr std::size_t size_max = 4096;

const bytes* current = nullptr;
std::string crash_file;
const target* chosen = nullptr;

/// Makes only calls that a signal handler may make.
void keep_current() {
  if (current == nullptr) return;
  const int file = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0 || ::write(file, current->data(), current->size()) < 0) return;
  ::close(file);
  constexpr char text[] = "fuzz: the input is kept in ";
  if (::write(2, text, sizeof text - 1) < 0 || ::write(2, crash_file.data(), crash_file.size()) < 0) return;
  if (::write(2, "\n", 1) < 0) return;
  current = nullptr;
}

void on_signal(int number) {
  keep_current();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void feed(const bytes& one) {
  current = &one;
  // A copy of exactly its size, so that a sanitizer detects reads past it.
  const bytes copy(one);
  chosen->run(copy);
  current = nullptr;
}

class mutator {
 public:
  explicit mutator(const std::vector<bytes>& corpus) : corpus_(corpus) {}

  bytes next() {
    bytes one = corpus_[below(corpus_.size())];
    for (std::size_t i = 1 + below(4); i > 0; --i) change(one);
    if (one.size() > size_max) one.resize(size_max);
    return one;
  }

 private:
  std::size_t below(std::size_t limit) { return random_() % limit; }

  void change(bytes& one) {
    if (one.empty()) return one.push_back(static_cast<std::byte>(random_()));
    const std::size_t at = below(one.size());
    const auto place = one.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t some = 1 + below(std::min<std::size_t>(one.size() - at, 16));
    switch (below(8)) {
      case 0:
        *place ^= std::byte{1} << static_cast<int>(below(8));
        break;
      case 1:
        *place = static_cast<std::byte>(random_());
        break;
      case 2:
        one.resize(at);
        break;
      case 3:
        one.erase(place, place + static_cast<std::ptrdiff_t>(some));
        break;
      case 4: {
        const bytes again(place, place + static_cast<std::ptrdiff_t>(some));
        one.insert(place, again.begin(), again.end());
        break;
      }
      case 5:
        one.insert(place, static_cast<std::byte>(random_()));
        break;
      case 6:
        put_edge(one, at);
        break;
      default: {
        const bytes& other = corpus_[below(corpus_.size())];
        const std::size_t from = below(other.size() + 1);
        one.resize(at);
        one.insert(one.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      }
    }
  }

  /// Writes a number of 1, 2, 4 or 8 bytes at the edge of a range.
  void put_edge(bytes& one, std::size_t at) {
    const std::uint64_t bit = std::uint64_t{1} << below(64);
    const std::uint64_t edges[] = {bit, bit - 1, bit + 1, ~bit, ~std::uint64_t{0}, 0};
    const std::uint64_t number = edges[below(std::size(edges))];
    std::memcpy(one.data() + at, &number, std::min(one.size() - at, std::size_t{1} << below(4)));
  }

  const std::vector<bytes>& corpus_;
  std::mt19937_64 random_{1};
};

int make_corpus(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, content] : chosen->seeds()) {
    std::ofstream file(folder / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(content.data()), static_cast<std::streamsize>(content.size()));
    if (!file.flush()) return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}

bytes read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> all{std::istreambuf_iterator<char>(file), {}};
  bytes content(all.size());
  std::ranges::transform(all, content.begin(), [](char c) { return static_cast<std::byte>(c); });
  return content;
}

std::vector<bytes> read_all(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<bytes> corpus;
  std::ranges::transform(paths, std::back_inserter(corpus), read);
  return corpus;
}

int replay(const char* folder, std::size_t mutations) {
  const std::vector<bytes> corpus = read_all(folder);
  if (corpus.empty()) {
    std::fprintf(stderr, "fuzz: there is nothing in %s\n", folder);
    return EXIT_FAILURE;
  }
  for (const bytes& one : corpus) feed(one);
  mutator mutants(corpus);
  for (std::size_t i = 0; i < mutations; ++i) feed(mutants.next());
  std::printf("fuzz: %zu files and %zu mutations\n", corpus.size(), mutations);
  return EXIT_SUCCESS;
}

int usage() {
  std::fprintf(stderr, "usage: fuzz_replay TARGET FOLDER [MUTATIONS] | TARGET --make-corpus FOLDER\nThe targets:");
  for (const target& one : targets()) std::fprintf(stderr, " %s", one.name);
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

std::vector<target>& targets() {
  static std::vector<target> all;
  return all;
}

}  // namespace troupe::fuzz

int main(int argc, char** argv) {
  using namespace troupe::fuzz;
  if (argc < 3 || argc > 4) return troupe::fuzz::usage();
  const auto found = std::ranges::find(troupe::fuzz::targets(), std::string_view(argv[1]), &troupe::fuzz::target::name);
  if (found == troupe::fuzz::targets().end()) return troupe::fuzz::usage();
  troupe::fuzz::chosen = &*found;
  if (argv[2] == std::string_view("--make-corpus"))
    return argc == 4 ? troupe::fuzz::make_corpus(argv[3]) : troupe::fuzz::usage();
  std::size_t mutations = 0;
  if (argc == 4) std::from_chars(argv[3], argv[3] + std::strlen(argv[3]), mutations);
  troupe::fuzz::crash_file = std::string("crash-") + troupe::fuzz::chosen->name;
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(troupe::fuzz::keep_current);
  std::signal(SIGABRT, troupe::fuzz::on_signal);
  if (__sanitizer_set_death_callback == nullptr) std::signal(SIGSEGV, troupe::fuzz::on_signal);
  return troupe::fuzz::replay(argv[2], mutations);
}
