// Goal: a model learns from images in IDX files, with the same weights however they are packed and however the program
// is set up. Method: small images of four classes, each with a different bright quarter.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/end_to_end/several.hpp"
#include "tests/model/data_file.hpp"

namespace troupe::end_to_end::images_test {
namespace {

constexpr std::size_t side = 8;
constexpr std::size_t classes = 4;

/// Labels are 0, 1, 2, 3, 0, ... Images have 8 x 8 pixels: 160 to 255 in the quarter of their label, else below 96.
struct made_images {
  std::string images;
  std::string labels;

  explicit made_images(std::size_t rows, std::uint32_t seed) {
    const auto number = static_cast<char>(rows % 256);
    const auto hundreds = static_cast<char>(rows / 256);
    images = {0, 0, 8, 3, 0, 0, hundreds, number, 0, 0, 0, side, 0, 0, 0, side};
    labels = {0, 0, 8, 1, 0, 0, hundreds, number};
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t label = row % classes;
      labels += static_cast<char>(label);
      for (std::size_t pixel = 0; pixel < side * side; ++pixel) {
        const std::size_t quarter = pixel / side / (side / 2) * 2 + pixel % side / (side / 2);
        seed = seed * 1664525 + 1013904223;
        images += static_cast<char>((seed >> 24) % 96 + (quarter == label ? 160 : 0));
      }
    }
  }
};

constexpr int test_images = 100;

args job_on(const std::string& images, const std::string& labels) {
  const made_images test(test_images, 2);
  const std::string test_files =
      write_file("test.images", test.images) + "," + write_file("test.labels.gz", model::gzip(test.labels));
  return {"train",       "--json",  "--data",       "idx:" + images + "," + labels,
          "--trainers",  "2",       "--hidden",     "16",
          "--classes",   "4",       "--epochs",     "5",
          "--dense-lr",  "0.01",    "--batch-size", "16",
          "--test-file", test_files};
}

TEST(Images, TeachAModelWithTheSameWeightsInProcesses) {
  const made_images train(402, 1);  // the last batches are short: 201 rows of each trainer
  const std::string images = write_file("train.images", train.images);
  const std::string labels = write_file("train.labels", train.labels);
  const args job = job_on(images, labels);
  const outcome whole = run(job);
  const auto done = last_event(whole, "done");
  ASSERT_FALSE(done.empty()) << whole.err;
  EXPECT_EQ(done.at("samples"), 5 * 402);
  // Guessing is right for about a quarter of the rows; five deviations more occur once in millions of tries.
  const double chance = 1.0 / classes;
  const double deviation = std::sqrt(chance * (1 - chance) / test_images);
  EXPECT_GT(done.at("accuracy").to_number<double>(), chance + 5 * deviation);
  const std::string expected = digest_of(whole);
  EXPECT_EQ(digest_of(run(with(job, {"--processes"}))), expected);
  EXPECT_EQ(digest_of(run(with(job, {"--threads", "1"}))), expected);
  EXPECT_NE(digest_of(run(with(job, {"--seed", "2"}))), expected);
  const std::string packed = write_file("train.images.gz", model::gzip(train.images));
  EXPECT_EQ(digest_of(run(job_on(packed, labels))), expected);
}

TEST(Images, ThatAreCutOffAreRefused) {
  const made_images train(402, 1);
  const std::string images = write_file("cut.images", train.images.substr(0, 1000));
  const std::string labels = write_file("train.labels", train.labels);
  EXPECT_EQ(expect_error(run({"train", "--data", "idx:" + images + "," + labels}), 2),
            "troupe: error: " + images +
                ": must have 25744 bytes, as the shape 402 x 8 x 8 in its header says, but has 1000; get the file "
                "again");
}

}  // namespace
}  // namespace troupe::end_to_end::images_test
