// Small IDX image files for tests; each image encodes its number.

#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "model/batch.hpp"
#include "tests/model/temporary_file.hpp"

namespace troupe::model {

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}

inline std::string idx(const std::vector<std::uint32_t>& shape, const std::string& elements, char type = 8) {
  std::string text{0, 0, type, static_cast<char>(shape.size())};
  for (const std::uint32_t size : shape) text += big_endian(size);
  return text + elements;
}

/// Element `i` of image `row`: the first two encode the row.
inline std::uint8_t pixel_of(std::uint64_t row, std::size_t i) {
  return static_cast<std::uint8_t>(i == 0 ? row % 256 : i == 1 ? row / 256 : (row * 31 + i * 17) % 256);
}

inline std::string pixels_of(std::uint64_t rows, std::size_t width) {
  std::string bytes;
  for (std::uint64_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i) bytes += static_cast<char>(pixel_of(row, i));
  return bytes;
}

inline std::uint8_t label_of(std::uint64_t row, unsigned classes) {
  return static_cast<std::uint8_t>(row * 7 % classes);
}

inline std::string labels_text(std::uint32_t rows, unsigned classes = 10) {
  std::string bytes;
  for (std::uint32_t row = 0; row < rows; ++row) bytes += static_cast<char>(label_of(row, classes));
  return idx({rows}, bytes);
}

inline std::string images_text(std::uint32_t rows, std::uint32_t height = 3, std::uint32_t width = 5) {
  return idx({rows, height, width}, pixels_of(rows, std::size_t{height} * width));
}

/// The files of images and of labels.
struct pair_of_files {
  temporary_file images;
  temporary_file labels;

  explicit pair_of_files(std::uint32_t rows) : pair_of_files(images_text(rows), labels_text(rows)) {}
  pair_of_files(const std::string& of_images, const std::string& of_labels) : images(of_images), labels(of_labels) {}

  std::string names() const { return images.path() + "," + labels.path(); }
};

inline std::uint64_t row_in(const batch& from, std::size_t sample, std::size_t width) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint64_t>(std::lround(from.dense[sample * width + i] * 255));
  };
  return byte(0) + 256 * byte(1);
}

/// Expects that sample `sample` is image `row`, with its label.
inline void expect_row(const batch& from, std::size_t sample, std::uint64_t row, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i)
    ASSERT_EQ(from.dense[sample * width + i], static_cast<float>(pixel_of(row, i)) / 255.0F) << row << " " << i;
  ASSERT_EQ(from.classes[sample], label_of(row, 10)) << row;
}

}  // namespace troupe::model
