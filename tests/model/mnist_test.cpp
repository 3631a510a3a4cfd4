// Goal: MNIST is found, plain or packed, where tools/setup.sh puts it or where the job says, and nothing else is
// mistaken for it. Method: small files with its names.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "model/hybrid.hpp"
#include "tests/model/data_file.hpp"
#include "tests/model/made_images.hpp"

namespace troupe::model::mnist_test {
namespace {

/// A folder with small files that have MNIST's names.
class Mnist : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "troupe_mnist_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    put("train-images-idx3-ubyte", images_text(12, 28, 28));
    put("train-labels-idx1-ubyte.gz", gzip(labels_text(12)));
    put("t10k-images-idx3-ubyte.gz", gzip(images_text(5, 28, 28)));
    put("t10k-labels-idx1-ubyte", labels_text(5));
  }

  void TearDown() override { std::filesystem::remove_all(folder_); }

  void put(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary).write(content.data(), std::ssize(content));
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<setting> job() const { return {{"data", "mnist:" + folder_}, {"batch-size", "2"}}; }

  std::string folder_;
};

TEST_F(Mnist, HasFourFilesPlainOrPacked) {
  const auto data = opened(job());
  EXPECT_EQ(data->spec().image, troupe::shape(1, 28, 28));
  EXPECT_EQ(data->spec().dense_features, 784U);
  EXPECT_EQ(data->spec().outputs, 10U);
  EXPECT_EQ(data->steps_per_epoch(), 3U);
  ASSERT_EQ(data->test_rows(), 5U);
  const batch taken = data->test_batch(0, 5).value();
  for (std::size_t i = 0; i < 5; ++i) expect_row(taken, i, i, 784);
  const auto told = spec_of(parse_job({{"data", "mnist"}}).value());
  ASSERT_TRUE(told);
  EXPECT_EQ(told->image, data->spec().image);
  EXPECT_EQ(told->dense_features, data->spec().dense_features);
  EXPECT_EQ(told->outputs, data->spec().outputs);
}

TEST_F(Mnist, OfWhichAFileIsMissingIsRefused) {
  for (const char* name : {"t10k-labels-idx1-ubyte", "train-images-idx3-ubyte"}) {
    std::filesystem::remove(path(name));
    EXPECT_EQ(refusal(open_with(job())),
              path(name) +
                  ": no such file, nor with .gz; get the four files of MNIST by tools/setup.sh mnist, or name their "
                  "folder by --data mnist:DIR");
  }
}

TEST_F(Mnist, HasImagesOf28x28AndTenClasses) {
  put("train-labels-idx1-ubyte", idx({12}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0}));  // preferred to the packed one
  EXPECT_EQ(refusal(open_with(job())),
            path("train-labels-idx1-ubyte") + ": label 10 of row 10 (from 0): must be below 10, the classes of MNIST");
  put("train-images-idx3-ubyte", images_text(12, 32, 28));
  EXPECT_EQ(refusal(open_with(job())), path("train-images-idx3-ubyte") +
                                           ": images of 1 x 32 x 28: must be 1 x 28 x 28 (channels, height, width), "
                                           "as those of MNIST; use --data idx:IMAGES,LABELS");
}

/// Sets or removes an environment variable until the end of the scope.
class with_variable {
 public:
  with_variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  with_variable(const with_variable&) = delete;
  with_variable& operator=(const with_variable&) = delete;
  ~with_variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_F(Mnist, IsInTheUsersCacheUnlessItsFolderIsNamed) {
  const std::vector<setting> unnamed{{"data", "mnist"}, {"batch-size", "2"}};
  const auto place = [&] {
    const std::string said = refusal(open_with(unnamed));
    return said.substr(0, said.find(": "));
  };
  const with_variable home("HOME", "/no/home");
  {
    const with_variable cache("XDG_CACHE_HOME", "/no/cache");
    EXPECT_EQ(place(), "/no/cache/troupe/mnist/train-images-idx3-ubyte");
  }
  {
    const with_variable cache("XDG_CACHE_HOME", "relative");
    EXPECT_EQ(place(), "/no/home/.cache/troupe/mnist/train-images-idx3-ubyte");
  }
  const with_variable cache("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(place(), "/no/home/.cache/troupe/mnist/train-images-idx3-ubyte");
  const with_variable no_home("HOME", nullptr);
  EXPECT_EQ(refusal(open_with(unnamed)),
            "--data mnist: HOME is not set, so the user's cache is not known; use --data mnist:DIR");
}

TEST_F(Mnist, NamesNoFolderByAnEmptyName) {
  EXPECT_EQ(refusal(parse_job({{"data", "mnist:"}})),
            "--data mnist:: must name a folder, mnist:DIR, or be mnist alone");
}

}  // namespace
}  // namespace troupe::model::mnist_test
