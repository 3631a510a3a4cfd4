#include "troupe/data.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "troupe/error.hpp"

namespace troupe {

namespace runtime {

class open_data {
 public:
  std::shared_ptr<const model::job> what;
  std::shared_ptr<const model::dataset> rows;
  std::uint32_t rank = 0;
};

}  // namespace runtime

namespace {

/// Removes the dashes of option names from an error text: the settings of a data set are not options.
std::string without_dashes(std::string text) {
  for (const model::setting_info& one : model::job_settings())
    for (std::size_t at = 0; (at = text.find("--" + one.name, at)) != text.npos;) text.erase(at, 2);
  return text;
}

template <class Value>
Value taken(result<Value> from) {
  if (!from)
    throw error(from.error().kind == fault_kind::input ? error_kind::input : error_kind::run,
                without_dashes(from.error().message));
  return std::move(*from);
}

tensor matrix(std::size_t rows, const std::vector<float>& numbers) {
  if (numbers.empty()) return {};
  return tensor::of(shape(rows, numbers.size() / rows), std::span(numbers));
}

data_batch converted(model::batch&& from) {
  data_batch made{.size = from.size, .classes = std::move(from.classes)};
  for (model::bags& one : from.tables) made.tables.push_back({std::move(one.indices), std::move(one.offsets)});
  if (from.size == 0) return made;
  made.dense = matrix(from.size, from.dense);
  made.values = matrix(from.size, from.values);
  return made;
}

}  // namespace

data_set::data_set(trainer me, const std::vector<std::pair<std::string, std::string>>& settings) {
  std::vector<model::setting> all = settings;
  for (const char* own : {"seed", "trainers"})
    if (model::value_of(settings, own) != nullptr)
      throw error(error_kind::input, std::string("data_set: ") + own + " is the run's, not one of the data's settings");
  all.emplace_back("seed", std::to_string(me.seed()));
  all.emplace_back("trainers", std::to_string(me.trainers()));
  auto what = taken(model::shared_job(all));
  auto rows = taken(model::open_dataset(*what));
  for (const model::table_spec& table : rows->spec().tables)
    if (table.weighted)
      throw error(error_kind::input, "data_set: bags with weights of their own are not supported here");
  data_ = std::make_shared<const runtime::open_data>(runtime::open_data{std::move(what), std::move(rows), me.rank()});
}

std::vector<std::int64_t> data_set::table_rows() const {
  std::vector<std::int64_t> rows;
  for (const model::table_spec& table : data_->rows->spec().tables) rows.push_back(table.rows);
  return rows;
}

std::size_t data_set::dense_features() const { return data_->rows->spec().dense_features; }
std::uint64_t data_set::steps_per_epoch() const { return data_->rows->steps_per_epoch(); }
std::uint64_t data_set::numbers_per_batch() const {
  return model::numbers_per_batch(*data_->what, data_->rows->spec());
}
std::uint64_t data_set::test_rows() const { return data_->rows->test_rows(); }

data_batch data_set::batch(std::uint64_t epoch, std::uint64_t step) const {
  return converted(taken(data_->rows->train_batch(epoch * steps_per_epoch() + step, data_->rank)));
}

std::vector<data_batch> data_set::test_batches(std::size_t size) const {
  if (size == 0) throw error(error_kind::input, "test_batches of 0 rows: at least 1");
  const std::uint64_t rows = test_rows();
  const std::uint64_t first = rows * data_->rank / data_->what->trainers;
  const std::uint64_t last = rows * (data_->rank + 1) / data_->what->trainers;
  std::vector<data_batch> all;
  for (std::uint64_t at = first; at < last; at += size)
    all.push_back(converted(taken(data_->rows->test_batch(at, std::min<std::uint64_t>(size, last - at)))));
  return all;
}

}  // namespace troupe
