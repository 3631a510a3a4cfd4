// Images with labels in two files of the IDX format, as for the MNIST database: the shape in numbers of 32 bits, most
// significant byte first, then one byte for each element.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "nn/tensor.hpp"

namespace troupe::model {

struct image_files {
  std::string images;
  std::string labels;
};

/// Splits IMAGES,LABELS; null if these are not two names with one comma between them.
std::optional<image_files> image_files_of(std::string_view text);

/// Immutable. Thread: any.
struct labeled_images {
  /// An image's: {channels, height, width}.
  troupe::shape shape;
  std::size_t rows = 0;
  std::unique_ptr<const std::uint8_t[]> pixels;  ///< [rows, channels, height, width]
  std::unique_ptr<const std::uint8_t[]> labels;  ///< [rows]
  /// Digest of both files' content, decompressed.
  std::string digest;
};

/// Reads both files, plain or compressed. The images file has 3 dimensions (number, height, width) or 4 (number,
/// channels, height, width), the labels file one, and both have the same number, at least 1. Faults: any other content,
/// a file that is too short or too long, no memory for it, and those of `input_file` and `byte_source`. Thread: any.
result<labeled_images> read_images(const image_files& files);

}  // namespace troupe::model
