#include "made_rows.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "model/random.hpp"

namespace troupe::bench {

namespace {

// Many small numbers and few large ones, like the public file.
void append_integer(std::string& to, std::size_t column, model::random_sequence& random) {
  constexpr double missing = 0.2;
  if (random.unit() < missing) return;
  const double scale = column == 4 ? 1e5 : column % 3 == 0 ? 1e3 : 50;  // column 4 has the largest numbers
  to += fmt::format("{}", static_cast<std::int64_t>(std::expm1(random.unit() * random.unit() * std::log(scale))));
}

void append_category(std::string& to, std::size_t column, model::random_sequence& random) {
  constexpr double missing = 0.1;
  if (random.unit() < missing) return;
  // A column's values are as skewed as its size allows.
  const double size = std::pow(10.0, 1 + static_cast<double>(column % 6));
  const auto value = static_cast<std::uint64_t>(std::pow(size, random.unit()));
  to += fmt::format("{:08x}", model::mix(value * 64 + column) & 0xffffffff);
}

}  // namespace

std::string criteo_text(std::size_t rows) {
  std::string text;
  model::random_sequence random(model::random_key(1, model::random_stream::synthetic));
  for (std::size_t row = 0; row < rows; ++row) {
    text += random.unit() < 0.25 ? '1' : '0';
    for (std::size_t column = 0; column < 13; ++column) append_integer(text += '\t', column, random);
    for (std::size_t column = 0; column < 26; ++column) append_category(text += '\t', column, random);
    text += '\n';
  }
  return text;
}

std::string categories_text(std::size_t rows, std::size_t columns) {
  std::string text;
  model::random_sequence random(model::random_key(2, model::random_stream::synthetic));
  for (std::size_t row = 0; row < rows; ++row) {
    text += random.unit() < 0.25 ? '1' : '0';
    for (std::size_t column = 0; column < columns; ++column) append_category(text += ',', column, random);
    text += '\n';
  }
  return text;
}

}  // namespace troupe::bench
