// Data sets that a program adds to jobs: why they are refused when added, opened or read.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/job.hpp"
#include "nn/own_data.hpp"
#include "tests/library/error_of.hpp"

namespace troupe::own_data_faults_test {
namespace {

using model::setting;

constexpr std::uint64_t broken_row = 3;

void fill(nn::data_samples& into) {
  into.next();
  into.bag(0, {1, 2});
  into.bag(1, {4}, {0.5});
  into.dense({1, 2});
  into.target_class(2);
}

/// The faults, by name, in what row 3 is read as.
const std::map<std::string, std::function<void(nn::data_samples&)>>& faults() {
  using samples = nn::data_samples;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  static const std::map<std::string, std::function<void(samples&)>> all = {
      {"fine", fill},
      {"index",
       [](samples& into) {
         into.next(), into.bag(0, {9, 10});
       }},
      {"negative", [](samples& into) { into.next(), into.bag(1, {-1}, {1}); }},
      {"table", [](samples& into) { into.next(), into.bag(2, {1}); }},
      {"weight", [nan](samples& into) { into.next(), into.bag(1, {1}, {nan}); }},
      {"no-weight",
       [](samples& into) {
         into.next(), into.bag(1, {1, 2}, {1});
       }},
      {"too-weighted", [](samples& into) { into.next(), into.bag(0, {1}, {1}); }},
      {"few", [](samples& into) { into.next(), into.dense({1}), into.target_class(0); }},
      {"many",
       [](samples& into) {
         into.next(), into.dense({1}), into.dense({2, 3});
       }},
      {"nan",
       [nan](samples& into) {
         into.next(), into.dense({1, nan});
       }},
      {"class",
       [](samples& into) {
         into.next(), into.dense({1, 2}), into.target_class(3);
       }},
      {"values", [](samples& into) { into.next(), into.targets({1}); }},
      {"twice", [](samples& into) { fill(into), into.target_class(0); }},
      {"no-target",
       [](samples& into) {
         into.next(), into.dense({1, 2});
       }},
      {"extra", [](samples& into) { fill(into), fill(into); }},
      {"missing", [](samples& /*into*/) {}},
      {"throws", [](samples& /*into*/) { throw std::runtime_error("the disk is\ngone"); }},
      {"throws-all", [](samples& into) { into.next(), throw 7; }}};
  return all;
}

/// The argument names a fault of row 3, or one when opening.
class broken final : public nn::own_data {
 public:
  explicit broken(const std::string& fault) : as_row_3_(faults().at(fault)) {}

  nn::data_form form() const override {
    return {.tables = {{.rows = 10, .indices_per_sample = 2}, {.rows = 5, .weighted = true}},
            .dense_features = 2,
            .classes = 3};
  }
  std::uint64_t rows() const override { return 8; }
  void read(std::span<const std::uint64_t> rows, bool /*test*/, nn::data_samples& into) const override {
    for (const std::uint64_t row : rows) row == broken_row ? as_row_3_(into) : fill(into);
  }

 private:
  std::function<void(nn::data_samples&)> as_row_3_;
};

const std::map<std::string, nn::data_form>& forms() {
  static const std::map<std::string, nn::data_form> all = {
      {"nothing", {.classes = 2}},
      {"no-target", {.dense_features = 1}},
      {"both", {.dense_features = 1, .classes = 2, .values = 1}},
      {"class", {.dense_features = 1, .classes = 1}},
      {"rows", {.tables = {{.rows = 3}, {.rows = 0}}, .classes = 2}},
      {"dim", {.tables = {{.rows = 3, .dim = 70000}}, .classes = 2}},
      {"weighted", {.tables = {{.rows = 3, .mode = pooling::mean, .weighted = true}}, .classes = 2}},
      {"indices", {.tables = {{.rows = 3, .indices_per_sample = -1}}, .classes = 2}},
      {"large", {.tables = {{.rows = 1'000'000'000'000}}, .classes = 2}},
      {"plane", {.image = {4, 3}, .classes = 2}},
      {"product", {.dense_features = 13, .image = {1, 4, 3}, .classes = 2}},
      {"image", {.image = {1, 4, 3}, .classes = 2}},
      {"ids", {.dense_features = 2, .classes = 2}}};
  return all;
}

/// Reports the form that the argument names. Each dense feature is 9.
class formed final : public nn::own_data {
 public:
  explicit formed(const std::string& name) : form_(forms().at(name)) {}

  nn::data_form form() const override { return form_; }
  std::uint64_t rows() const override { return 8; }
  void read(std::span<const std::uint64_t> rows, bool /*test*/, nn::data_samples& into) const override {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      into.next();
      into.dense(std::vector<float>(form_.dense_features, 9));
      into.target_class(0);
    }
  }

 private:
  nn::data_form form_;
};

/// Adds the data sets once in a process.
void add_all() {
  static const bool added = [] {
    nn::add_data("broken", [](const std::string& fault, std::uint64_t) -> std::shared_ptr<const nn::own_data> {
      if (fault == "closed") throw std::runtime_error("no such file");
      if (fault == "none") return nullptr;
      return std::make_shared<broken>(fault);
    });
    nn::add_data("formed", [](const std::string& name, std::uint64_t) { return std::make_unique<formed>(name); });
    return true;
  }();
  ASSERT_TRUE(added);
}

/// Settings of jobs on data sets with few rows.
std::vector<setting> on(const std::string& data, std::vector<setting> settings = {}) {
  settings.insert(settings.end(), {{"data", data}, {"batch-size", "8"}, {"trainers", "1"}});
  return settings;
}

std::string refusal(const std::vector<setting>& settings) {
  const auto made = model::parse_job(settings);
  if (!made) return made.error().message;
  const auto data = model::open_dataset(*made);
  if (data) return "no error";
  EXPECT_EQ(data.error().kind, fault_kind::input);
  return data.error().message;
}

/// Returns the error of reading or checking a batch of all 8 rows.
std::string read_error(const std::string& fault) {
  const auto data = model::open_dataset(model::parse_job(on("broken:" + fault)).value()).value();
  const auto made = data->train_batch(0, 0);
  if (made) return model::check_batch(data->spec(), *made).value_or("no error");
  EXPECT_EQ(made.error().kind, fault_kind::run);
  return made.error().message;
}

TEST(OwnDataFaults, NameDataSetRowAndValue) {
  add_all();
  const auto row_3 = [](const std::string& fault, const std::string& why) {
    EXPECT_EQ(read_error(fault), "--data broken:" + fault + ": row 3: " + why);
  };
  EXPECT_EQ(read_error("fine"), "no error");
  row_3("index", "index 10 of table 0: must be between 0 and 9, the table has 10 rows");
  row_3("negative", "index -1 of table 1: must be between 0 and 4, the table has 5 rows");
  row_3("table", "a bag of table 2: there are 2 tables");
  row_3("weight", "weight nan of table 1: must be a finite number");
  row_3("no-weight", "1 weights for 2 indices of table 1: must be one for each");
  row_3("too-weighted", "weights of table 0: the table is not weighted");
  row_3("few", "1 dense features: must be 2");
  row_3("many", "3 dense features: must be 2");
  row_3("nan", "dense feature 1: nan: must be a finite number");
  row_3("class", "class 3: must be between 0 and 2");
  row_3("values", "target values: the targets are classes");
  row_3("twice", "a second target: must be one a sample");
  row_3("no-target", "no target: must have a class");
  row_3("throws-all", "an exception of unknown type");
}

TEST(OwnDataFaults, AreThoseOfBatchesWithTooManySamplesOrTooFew) {
  add_all();
  EXPECT_NE(read_error("extra").find(": one more sample than the 8 rows to be read"), std::string::npos);
  EXPECT_NE(read_error("missing").find(": 7 samples for 8 rows: must be one for each"), std::string::npos);
  EXPECT_NE(read_error("throws").find(": the disk is gone"), std::string::npos) << "in one line";
}

TEST(OwnDataFaults, EndARunThatReadsThem) {
  add_all();
  for (const char* fault : {"index", "throws-all"}) {
    const auto run = nodes::run_job(model::parse_job(on(std::string("broken:") + fault)).value(), {}, nullptr);
    ASSERT_FALSE(run);
    EXPECT_EQ(run.error().kind, fault_kind::run) << "exit code 1";
    EXPECT_NE(run.error().message.find(std::string("--data broken:") + fault + ": row 3: "), std::string::npos)
        << run.error().message;
  }
}

TEST(OwnDataFaults, OfOpeningRefuseTheJob) {
  add_all();
  EXPECT_EQ(refusal(on("broken:closed")), "--data broken:closed: opening it: no such file");
  EXPECT_EQ(refusal(on("broken:none")), "--data broken:none: opening it: its function has returned none");
  const auto wrong = [](const std::string& name, const std::string& why) {
    EXPECT_EQ(refusal(on("formed:" + name)), "--data formed:" + name + ": " + why);
  };
  wrong("nothing", "no tables and no dense features: must have some");
  wrong("no-target", "0 classes and 0 values: must have one or the other as targets");
  wrong("both", "2 classes and 1 values: must have one or the other as targets");
  wrong("class", "1 classes: must be between 2 and 65536");
  wrong("rows", "table 1: 0 rows: must be between 1 and 1000000000000");
  wrong("dim", "table 0: dim 70000: must be at most 65536, or 0 for that of the job");
  wrong("weighted", "table 0: only tables of mode sum can be weighted");
  wrong("indices", "table 0: indices_per_sample -1: must be between 0 and 65536");
  wrong("large", "tables 0 to 0 would have more than 1099511627776 weights; use fewer rows, or a smaller --dim");
  wrong("plane", "an image [4, 3]: must be {channels, height, width}");
  wrong("product", "13 dense features and an image [1, 4, 3]: must be 12");
}

TEST(OwnDataFaults, ImagesAndIdsAreKnownAsSuch) {
  add_all();
  const auto images = model::open_dataset(model::parse_job(on("formed:image")).value()).value();
  EXPECT_EQ(images->spec().image, troupe::shape(1, 4, 3));
  EXPECT_EQ(images->spec().dense_features, 12U);
  const auto looked_up = on("formed:ids", {{"layers", R"([{"kind": "embedding", "rows": 4, "dim": 3},
                                                          {"kind": "flatten"}, {"kind": "linear", "out": 2}])"}});
  const auto ids = model::open_dataset(model::parse_job(looked_up).value()).value()->train_batch(0, 0);
  ASSERT_FALSE(ids);
  EXPECT_NE(ids.error().message.find(": dense feature 0: 9: must be a whole number between 0 and 3, an id"),
            std::string::npos)
      << ids.error().message;
}

TEST(OwnDataFaults, NameWhatDoesNotGoWithAJob) {
  add_all();
  EXPECT_EQ(refusal(on("broken:fine", {{"loss", "bce-logits"}})),
            "--loss bce-logits: needs targets in 2 classes, broken:fine has 3 classes; use cross-entropy or mse");
  EXPECT_EQ(refusal({{"data", "broken:fine"}, {"trainers", "9"}, {"batch-size", "1"}}),
            "--trainers 9: broken:fine has 8 training rows: must be at least one for each trainer; use fewer trainers");
  EXPECT_EQ(refusal({{"data", "broken:fine"}}),
            "--batch-size 256: must be at most 8, the training rows of broken:fine");
  EXPECT_EQ(refusal(on("broken:fine", {{"rows", "5"}})),
            "--rows 5: broken has no such setting; leave it out, or use it with --data synthetic, criteo or csv");
  EXPECT_EQ(refusal({{"data", "broken:"}}),
            "--data broken:: must have an argument, broken:ARGUMENT, or be broken alone");
}

TEST(OwnDataFaults, OfAnUnknownNameListThoseThatThereAre) {
  add_all();
  const std::string text = refusal({{"data", "broke"}});
  EXPECT_EQ(text.find("--data broke: unknown data set; the nearest is broken, and there are adult, tutorial, "), 0U)
      << text;
  EXPECT_NE(text.find(" and idx:IMAGES,LABELS; the program has added "), std::string::npos) << text;
  EXPECT_NE(text.find("broken, formed"), std::string::npos) << text;
}

TEST(OwnDataFaults, NamesAreThoseOfNoOtherDataSet) {
  add_all();
  const auto adding = [](const std::string& name) {
    return test::error_of([&] {
      nn::add_data(name, [](const std::string&, std::uint64_t) { return std::make_unique<formed>("image"); });
    });
  };
  for (const std::string name : {"adult", "tutorial", "synthetic", "criteo", "csv", "mnist", "idx", "replay", "broken"})
    EXPECT_EQ(adding(name), "add_data: there is a data set '" + name + "' already");
  EXPECT_EQ(adding("ratings:1"),
            "add_data: the name 'ratings:1' must be of lower-case letters, digits and '-', a letter first");
  EXPECT_EQ(test::error_of([] { nn::add_data("closed", {}); }), "add_data: closed has no function that opens it");
}

}  // namespace
}  // namespace troupe::own_data_faults_test
