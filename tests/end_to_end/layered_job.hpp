// A job of a network given by layers, on images that the test makes: as a job file, with the command line that runs it.

#pragma once

#include <cstdint>
#include <string>

#include "tests/end_to_end/several.hpp"
#include "tests/model/made_images.hpp"

namespace troupe::end_to_end {

/// The layers of a file, for images of 1 x 8 x 8 in 4 classes. Convolutions before a batch_norm have no bias: its
/// gradient is only rounding error, which Adam would scale up.
inline const std::string convolutions = R"([[layers]]
kind = "conv2d"
out_channels = 6
kernel = 3
padding = 1
bias = false

[[layers]]
kind = "batch_norm"

[[layers]]
kind = "relu"

[[layers]]
kind = "max_pool2d"
kernel = 2

[[layers]]
kind = "residual"
layers = [{kind = "conv2d", out_channels = 6, kernel = 3, padding = 1, bias = false}, {kind = "batch_norm"}]

[[layers]]
kind = "flatten"

[[layers]]
kind = "linear"
out = 16

[[layers]]
kind = "dropout"
rate = 0.3

[[layers]]
kind = "linear"
out = 4
)";

/// The same with a final pair of linear layers, which slices can share.
inline std::string paired_convolutions() {
  const std::string dropout = "kind = \"dropout\"\nrate = 0.3\n";
  return std::string(convolutions).replace(convolutions.find(dropout), dropout.size(), "kind = \"gelu\"\n");
}

/// Writes images of 1 x 8 x 8 in 4 classes, each with a different bright quarter; returns the value of `--data`.
inline std::string written_images(const std::string& name, std::uint32_t rows) {
  constexpr std::uint32_t side = 8;
  std::string pixels;
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t i = 0; i < side * side; ++i) {
      const std::uint32_t quarter = i / side / (side / 2) * 2 + i % side / (side / 2);
      const bool is_bright = quarter == model::label_of(row, 4);
      pixels += static_cast<char>((row * 31 + i * 17) % 96 + (is_bright ? 160 : 0));
    }
  return "idx:" + write_file(name + ".images", model::idx({rows, side, side}, pixels)) + "," +
         write_file(name + ".labels", model::labels_text(rows, 4));
}

/// Writes the job's file: 201 rows for each of two trainers, so the last of an epoch's 13 batches is short.
inline std::string layered_job_file(const std::string& layers = convolutions) {
  return write_file("layers.toml", "data = \"" + written_images("train", 402) +
                                       "\"\nclasses = 4\nbatch-size = 16\nepochs = 2\ndense-lr = 0.01\n"
                                       "test-file = \"" +
                                       written_images("test", 100).substr(4) + "\"\n\n" + layers);
}

inline args layered_job(const std::string& layers = convolutions) {
  return {"train", layered_job_file(layers), "--json", "--device", "cpu"};
}

}  // namespace troupe::end_to_end
