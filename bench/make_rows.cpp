// Writes a generated data file, which depends only on its kind and number of rows.
//
//   bench_make_rows criteo ROWS FILE       Criteo's format: a label, 13 integers and 26 categories, tabs between them
//   bench_make_rows categories ROWS FILE   a CSV file without a header: a label and 12 categories

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "made_rows.hpp"

namespace {

int give_up(const std::string& why) {
  fmt::print(stderr, "bench_make_rows: error: {}\n", why);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe;
  constexpr std::size_t rows_max = 100'000'000, portion = 100'000, categories = 12;
  if (argc != 4) return give_up("criteo or categories, ROWS and FILE are needed");
  const std::string_view kind = argv[1];
  const std::size_t rows = std::strtoull(argv[2], nullptr, 10);
  if (kind != "criteo" && kind != "categories") return give_up("the first argument must be criteo or categories");
  if (rows < 1 || rows > rows_max) return give_up(fmt::format("ROWS must be between 1 and {}", rows_max));
  // Large files repeat the same rows: only the reading speed is measured.
  const std::string text = kind == "criteo" ? bench::criteo_text(std::min(rows, portion))
                                            : bench::categories_text(std::min(rows, portion), categories);
  std::ofstream file(argv[3], std::ios::binary);
  for (std::size_t left = rows; left > 0;) {
    const std::size_t count = std::min(left, portion);
    std::size_t end = text.size();
    if (count < std::min(rows, portion)) {
      end = 0;
      for (std::size_t line = 0; line < count; ++line) end = text.find('\n', end) + 1;
    }
    file.write(text.data(), static_cast<std::streamsize>(end));
    left -= count;
  }
  if (!file.flush()) return give_up(fmt::format("cannot write {}", argv[3]));
}
