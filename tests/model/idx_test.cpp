// Goal: images in IDX files are read as stored, each training row once an epoch, however the files are packed; a faulty
// file is reported before training. Method: files of a few tiny images that encode their numbers, and the documented
// order, recomputed.

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "model/random.hpp"
#include "tests/model/data_file.hpp"
#include "tests/model/made_images.hpp"

namespace troupe::model::idx_test {
namespace {

std::vector<setting> job_on(const pair_of_files& files, const std::vector<setting>& more = {}) {
  std::vector<setting> settings{{"data", "idx:" + files.names()}, {"batch-size", "1"}, {"seed", "9"}};
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

TEST(Idx, TellsTheShapesOfImages) {
  const pair_of_files files(20);
  const auto data = opened(job_on(files, {{"batch-size", "4"}}));
  EXPECT_TRUE(data->spec().tables.empty());
  EXPECT_EQ(data->spec().dense_features, 15U);
  EXPECT_EQ(data->spec().image, troupe::shape(1, 3, 5));
  EXPECT_EQ(data->spec().outputs, 10U);
  EXPECT_FALSE(data->spec().binary_targets);
  EXPECT_EQ(data->steps_per_epoch(), 3U) << "10 rows of each trainer, 4 a step";
  EXPECT_EQ(data->test_rows(), 0U);
  EXPECT_EQ(data->test_batch(0, 0).value().size, 0U);
  EXPECT_EQ(opened(job_on(files, {{"classes", "77"}}))->spec().outputs, 77U);
  EXPECT_EQ(opened(job_on(files, {{"loss", "mse"}}))->spec().outputs, 1U);
}

TEST(Idx, ChannelsAreTheSecondOfFourDimensions) {
  const pair_of_files files(idx({6, 3, 2, 4}, pixels_of(6, 24)), labels_text(6));
  const auto data = opened(job_on(files, {{"trainers", "1"}, {"batch-size", "6"}}));
  EXPECT_EQ(data->spec().image, troupe::shape(3, 2, 4));
  EXPECT_EQ(data->spec().dense_features, 24U);
  const batch taken = data->train_batch(0, 0).value();
  ASSERT_EQ(taken.dense.size(), 6U * 24);
  for (std::size_t i = 0; i < 6; ++i) expect_row(taken, i, row_in(taken, i, 24), 24);
}

TEST(Idx, TwoClassesAreBinaryTargets) {
  const pair_of_files files(images_text(9), labels_text(9, 2));
  const auto bce = opened(job_on(files, {{"classes", "2"}, {"loss", "bce-logits"}, {"trainers", "1"}}));
  EXPECT_EQ(bce->spec().outputs, 1U);
  EXPECT_TRUE(bce->spec().binary_targets);
  for (std::uint64_t step = 0; step < 9; ++step) {
    const batch taken = bce->train_batch(step, 0).value();
    EXPECT_TRUE(taken.classes.empty());
    EXPECT_EQ(taken.values, (std::vector<float>{static_cast<float>(label_of(row_in(taken, 0, 15), 2))}));
  }
  EXPECT_EQ(opened(job_on(files, {{"classes", "2"}}))->spec().outputs, 2U);
  EXPECT_TRUE(opened(job_on(files, {{"classes", "2"}}))->spec().binary_targets);
}

// 301 rows of 3 trainers: 101, 100 and 100, in batches of 8.
TEST(Idx, AnEpochIsEveryRowOnceInThePermutationsOrder) {
  const pair_of_files files(301);
  const auto data = opened(job_on(files, {{"trainers", "3"}, {"batch-size", "8"}}));
  ASSERT_EQ(data->steps_per_epoch(), 13U);
  for (const std::uint64_t epoch : {0, 1}) {
    const std::uint64_t key = random_key(9, random_stream::shuffle, epoch);
    std::multiset<std::uint64_t> seen;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      std::uint64_t position = rank;
      for (std::uint64_t step = 0; step < 13; ++step) {
        const batch taken = data->train_batch(epoch * 13 + step, rank).value();
        ASSERT_EQ(taken.size, step < 12 ? 8U : rank == 0 ? 5U : 4U);
        ASSERT_EQ(taken.dense.size(), taken.size * 15);
        ASSERT_EQ(taken.classes.size(), taken.size);
        ASSERT_TRUE(taken.tables.empty());
        ASSERT_EQ(check_batch(data->spec(), taken).value_or("sound"), "sound");
        for (std::size_t i = 0; i < taken.size; ++i, position += 3) {
          const std::uint64_t row = shuffled(301, key, position);
          expect_row(taken, i, row, 15);
          seen.insert(row);
        }
      }
    }
    ASSERT_EQ(seen.size(), 301U);
    EXPECT_EQ(std::set<std::uint64_t>(seen.begin(), seen.end()).size(), 301U);
  }
}

TEST(Idx, ARankWithoutRowsHasAnEmptyBatch) {
  const pair_of_files files(3);
  const auto data = opened(job_on(files, {{"trainers", "2"}}));
  ASSERT_EQ(data->steps_per_epoch(), 2U);
  EXPECT_EQ(data->train_batch(1, 0).value().size, 1U);
  EXPECT_EQ(data->train_batch(1, 1).value().size, 0U);
  EXPECT_TRUE(data->train_batch(1, 1).value().dense.empty());
}

TEST(Idx, TestRowsAreThoseOfTheTestFilesInOrder) {
  const pair_of_files train(4);
  const pair_of_files test(300);
  const auto data = opened(job_on(train, {{"test-file", test.names()}}));
  ASSERT_EQ(data->test_rows(), 300U);
  for (const auto& [first, count] : {std::pair{0U, 7U}, {250U, 50U}, {299U, 1U}}) {
    const batch taken = data->test_batch(first, count).value();
    ASSERT_EQ(taken.size, count);
    for (std::size_t i = 0; i < count; ++i) expect_row(taken, i, first + i, 15);
  }
}

TEST(Idx, TheDigestIsOfTheContentHoweverItIsPacked) {
  const pair_of_files plain(260);
  const pair_of_files packed(gzip(images_text(260)), zstd(labels_text(260)));
  const auto of_plain = opened(job_on(plain));
  const auto of_packed = opened(job_on(packed));
  EXPECT_EQ(of_packed->digest(), of_plain->digest());
  EXPECT_EQ(of_plain->digest().size(), 32U);
  for (std::uint64_t step = 0; step < 130; ++step) {
    EXPECT_EQ(of_packed->train_batch(step, 1).value().dense, of_plain->train_batch(step, 1).value().dense) << step;
    EXPECT_EQ(of_packed->train_batch(step, 1).value().classes, of_plain->train_batch(step, 1).value().classes) << step;
  }
  EXPECT_EQ(opened(job_on(plain, {{"test-file", packed.names()}}))->digest(), of_plain->digest() + of_plain->digest());
  std::string other = images_text(260);
  other.back() ^= 1;
  EXPECT_NE(opened(job_on({other, labels_text(260)}))->digest(), of_plain->digest());
  std::string label = labels_text(260);
  label.back() ^= 1;
  EXPECT_NE(opened(job_on({images_text(260), label}))->digest(), of_plain->digest());
}

// -- wrong files -----------------------------------------------------------------------------------------------------

/// The error for a wrong file, after its name: the images' file, or else that of the labels.
std::string fault_of(const std::string& images, const std::string& labels, const std::vector<setting>& more = {}) {
  const pair_of_files files(images, labels);
  const std::string said = refusal(open_with(job_on(files, more)));
  for (const auto* path : {&files.images.path(), &files.labels.path()})
    if (said.starts_with(*path)) return said.substr(path->size());
  return said;
}

std::string fault_of_images(const std::string& images) { return fault_of(images, labels_text(4)); }
std::string fault_of_labels(const std::string& labels) { return fault_of(images_text(4), labels); }

TEST(Idx, OtherFormatsAreRefused) {
  EXPECT_EQ(
      fault_of_images("\x89PNG\r\n"),
      ": begins with 89 50 4e 47: must be images in the IDX format, which begins with 00 00 08 03 or 00 00 08 04");
  EXPECT_EQ(fault_of_labels("1,2,3"),
            ": begins with 31 2c 32 2c: must be labels in the IDX format, which begins with 00 00 08 01");
  EXPECT_EQ(fault_of_labels(std::string(2, '\0')),
            ": begins with 00 00: must be labels in the IDX format, which begins with 00 00 08 01");
  EXPECT_EQ(fault_of_images(""), ": empty: must have at least one row");
  EXPECT_EQ(fault_of_images(gzip("")),
            ": has no bytes: must be images in the IDX format, which begins with 00 00 08 "
            "03 or 00 00 08 04");
  EXPECT_EQ(fault_of_images(idx({4, 3, 5}, pixels_of(4, 60), 13)),
            ": elements of type 0x0d: must be unsigned bytes, type 0x08");
  EXPECT_EQ(fault_of_images(labels_text(4)),
            ": 1 dimension(s): images have 3 (number, height, width) or 4 (number, channels, height, width); the "
            "images' file comes first, then that of the labels");
  EXPECT_EQ(fault_of_labels(images_text(4)),
            ": 3 dimension(s): labels have 1 (number); the images' file comes first, then that of the labels");
}

TEST(Idx, FilesOfAnotherLengthAreRefused) {
  const std::string whole = images_text(4);
  const std::string header = ": must have 76 bytes, as the shape 4 x 3 x 5 in its header says, but has ";
  EXPECT_EQ(fault_of_images(whole.substr(0, 75)), header + "75; get the file again");
  EXPECT_EQ(fault_of_images(whole + "x"), header + "77; get the file again");
  EXPECT_EQ(fault_of_images(gzip(whole.substr(0, 75))), header + "75; get the file again");
  EXPECT_EQ(fault_of_images(gzip(whole + "x")), header + "more; get the file again");
  EXPECT_EQ(fault_of_images(whole.substr(0, 14)), ": ends within its header, at byte 14 of 16; get the file again");
  EXPECT_EQ(fault_of_labels(labels_text(4) + "xy"),
            ": must have 12 bytes, as the shape 4 in its header says, but has 14; get the file again");
  const std::string packed = gzip(whole);
  EXPECT_NE(fault_of_images(packed.substr(0, packed.size() - 3)).find("the gzip data are cut off"), std::string::npos);
}

TEST(Idx, WrongShapesAreRefused) {
  EXPECT_EQ(fault_of_images(idx({4, 0, 5}, "")), ": its shape is 4 x 0 x 5: each number must be at least 1");
  EXPECT_EQ(fault_of_images(idx({4, 3, 0}, "")), ": its shape is 4 x 3 x 0: each number must be at least 1");
  EXPECT_EQ(fault_of_labels(idx({0}, "")), ": its shape is 0: each number must be at least 1");
  constexpr std::uint32_t most = 0xffff'ffff;
  const std::string too_many =
      " x 4294967295 x 4294967295: must be at most 281474976710656 elements; get the file again";
  EXPECT_EQ(fault_of_images(idx({1, most, most}, "x")), ": its shape is 1" + too_many);
  EXPECT_EQ(fault_of_images(gzip(idx({most, most, most, most}, "x"))),
            ": its shape is 4294967295 x 4294967295" + too_many);
  // 2^48 bytes exceed every machine's memory.
  EXPECT_NE(fault_of_images(gzip(idx({1U << 16, 1U << 16, 1U << 16}, "x"))).find(" would take 262144.0 GiB, and "),
            std::string::npos);
}

TEST(Idx, FilesThatDoNotFitTogetherAreRefused) {
  const pair_of_files files(images_text(4), labels_text(5));
  EXPECT_EQ(refusal(open_with(job_on(files))),
            files.images.path() + ": 4 images, but " + files.labels.path() + " has 5 labels: must be as many");
  const pair_of_files train(4);
  const pair_of_files test(images_text(4, 5, 3), labels_text(4));
  EXPECT_EQ(refusal(open_with(job_on(train, {{"test-file", test.names()}}))),
            test.images.path() + ": images of 1 x 5 x 3: must be 1 x 3 x 5 (channels, height, width), as those of " +
                train.images.path());
}

TEST(Idx, LabelsMustBeClasses) {
  EXPECT_EQ(fault_of_labels(idx({4}, {1, 2, 10, 99})),
            ": label 10 of row 2 (from 0): must be below 10, the classes; use more --classes");
  const pair_of_files more(images_text(4), idx({4}, {1, 2, 10, 99}));
  EXPECT_EQ(opened(job_on(more, {{"classes", "100"}}))->spec().outputs, 100U);
  EXPECT_NE(refusal(open_with(job_on(more, {{"classes", "99"}}))).find("label 99 of row 3"), std::string::npos);
  const pair_of_files train(4);
  EXPECT_EQ(refusal(open_with(job_on(train, {{"test-file", more.names()}}))).find(more.labels.path() + ": label 10"),
            0U);
}

TEST(Idx, FilesThatCannotBeReadAreRefused) {
  const temporary_file labels(labels_text(4));
  const std::string folder = testing::TempDir();
  EXPECT_EQ(refusal(open_with({{"data", "idx:/no/such/file," + labels.path()}})),
            "/no/such/file: No such file or directory; a data file is expected");
  EXPECT_EQ(refusal(open_with({{"data", "idx:" + folder + "," + labels.path()}})),
            folder + ": a directory: must be a data file");
}

TEST(Idx, FewRowsAreRefused) {
  const pair_of_files files(4);
  const auto said = [&](const char* name, const char* value) {
    return refusal(open_with(job_on(files, {{name, value}})));
  };
  EXPECT_EQ(said("batch-size", "5"), "--batch-size 5: must be at most 4, the training rows of " + files.images.path());
  EXPECT_EQ(said("trainers", "5"), "--trainers 5: " + files.images.path() +
                                       " has 4 training rows: must be at least one for each trainer; use fewer "
                                       "trainers");
}

TEST(Idx, TheNamesOfTwoFilesAreGiven) {
  for (const char* data : {"idx", "idx:", "idx:a", "idx:a,", "idx:,b", "idx:a,b,c"}) {
    EXPECT_EQ(refusal(parse_job({{"data", data}})),
              std::string("--data ") + data + ": must name two files with a comma between them: idx:IMAGES,LABELS");
  }
  EXPECT_EQ(refusal(parse_job({{"data", "idx:a,b"}, {"test-file", "c"}})),
            "--test-file c: must name two files with a comma between them: IMAGES,LABELS");
}

TEST(Idx, BinaryLossIsForTwoClasses) {
  EXPECT_EQ(refusal(parse_job({{"data", "idx:a,b"}, {"loss", "bce-logits"}})),
            "--loss bce-logits: needs --classes 2, not 10; use cross-entropy or mse");
  EXPECT_EQ(refusal(parse_job({{"data", "mnist"}, {"loss", "bce-logits"}})),
            "--loss bce-logits: needs targets in 2 classes, mnist has 10; use cross-entropy or mse");
}

}  // namespace
}  // namespace troupe::model::idx_test
