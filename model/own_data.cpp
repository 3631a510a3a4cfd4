// Data sets added by a program (nn/own_data.hpp): their descriptions and every sample that they read are checked, and
// their exceptions become faults.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/exception_text.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/datasets.hpp"
#include "model/hybrid.hpp"
#include "model/job_codecs.hpp"
#include "model/own_samples.hpp"
#include "model/sampler.hpp"

namespace troupe::model {

namespace {

constexpr std::uint64_t own_rows_max = 1'000'000'000'000;
constexpr std::uint64_t own_width_max = 65536;  // of tables, bags and targets
constexpr std::uint64_t own_features_max = std::uint64_t{1} << 28;
constexpr std::uint64_t own_weights_max = std::uint64_t{1} << 40;

/// Calls code of the program. Returns its exception as one line; null: none.
template <class Call>
std::optional<std::string> thrown_by(Call call) {
  constexpr std::size_t length = 1000;
  try {
    call();
  } catch (const std::exception& thrown) {
    return one_line(text_of(thrown), length);
  } catch (...) {
    return "an exception of unknown type";
  }
  return std::nullopt;
}

/// An open data set, and its description.
struct opened_data {
  std::shared_ptr<const nn::own_data> data;
  nn::data_form form;
  std::uint64_t rows = 0;
  std::uint64_t test_rows = 0;
  std::string digest;
};

// -- the description of a data set -----------------------------------------------------------------------------------

std::optional<std::string> check_table(const table_spec& table, std::size_t number) {
  if (table.rows < 1 || static_cast<std::uint64_t>(table.rows) > own_rows_max)
    return fmt::format("table {}: {} rows: must be between 1 and {}", number, table.rows, own_rows_max);
  if (table.dim > own_width_max)
    return fmt::format("table {}: dim {}: must be at most {}, or 0 for that of the job", number, table.dim,
                       own_width_max);
  if (table.mode > pooling::max) return fmt::format("table {}: there is no such mode", number);
  if (table.weighted && table.mode != pooling::sum)
    return fmt::format("table {}: only tables of mode sum can be weighted", number);
  if (!(table.indices_per_sample >= 0 && table.indices_per_sample <= static_cast<double>(own_width_max)))
    return fmt::format("table {}: indices_per_sample {}: must be between 0 and {}", number, table.indices_per_sample,
                       own_width_max);
  return std::nullopt;
}

/// Also fills in the number of dense features of an image.
std::optional<std::string> check_form(nn::data_form& form) {
  if (form.tables.size() > tables_max)
    return fmt::format("{} tables: must be at most {}", form.tables.size(), tables_max);
  for (std::size_t table = 0; table < form.tables.size(); ++table)
    if (auto wrong = check_table(form.tables[table], table)) return wrong;
  if (!form.image.empty()) {
    if (form.image.dimensions() != 3)
      return fmt::format("an image {}: must be {{channels, height, width}}", to_string(form.image));
    double numbers = 1;  // a product of integers may wrap around
    for (std::size_t i = 0; i < 3; ++i) numbers *= static_cast<double>(form.image[i]);
    if (numbers > static_cast<double>(own_features_max))
      return fmt::format("an image {}: must be of at most {} numbers", to_string(form.image), own_features_max);
    if (form.dense_features == 0) form.dense_features = form.image.count();
    if (form.dense_features != form.image.count())
      return fmt::format("{} dense features and an image {}: must be {}", form.dense_features, to_string(form.image),
                         form.image.count());
    if (form.dense_features == 0) return fmt::format("an image {}: is empty", to_string(form.image));
  }
  if (form.dense_features > own_features_max)
    return fmt::format("{} dense features: must be at most {}", form.dense_features, own_features_max);
  if (form.tables.empty() && form.dense_features == 0) return "no tables and no dense features: must have some";
  if ((form.classes == 0) == (form.values == 0))
    return fmt::format("{} classes and {} values: must have one or the other as targets", form.classes, form.values);
  if (form.classes == 1 || form.classes > own_width_max)
    return fmt::format("{} classes: must be between 2 and {}", form.classes, own_width_max);
  if (form.values > own_width_max) return fmt::format("{} values: must be at most {}", form.values, own_width_max);
  return std::nullopt;
}

/// Has the program open the data set that a job names.
result<opened_data> open_added(const job& job) {
  const auto added = nn::added_data();
  const auto known = std::ranges::find(added, data_name(job.data), &nn::named_data::name);
  if (known == added.end()) return bad_input("--data {}: unknown data set", printable_path(job.data));
  opened_data made;
  std::optional<std::string> wrong;
  const auto thrown = thrown_by([&] {
    made.data = known->open(job.data.substr(std::min(job.data.size(), known->name.size() + 1)), job.seed);
    if (made.data == nullptr) throw error(error_kind::input, "its function has returned none");
    made.form = made.data->form();
    made.rows = made.data->rows();
    made.test_rows = made.data->test_rows();
    made.digest = made.data->digest();
    wrong = check_form(made.form);
  });
  if (thrown) return bad_input("--data {}: opening it: {}", printable_path(job.data), *thrown);
  for (const std::uint64_t rows : {made.rows, made.test_rows})
    if (rows > own_rows_max) wrong = fmt::format("{} rows: must be at most {}", rows, own_rows_max);
  if (wrong) return bad_input("--data {}: {}", printable_path(job.data), *wrong);
  if (made.digest.empty()) return made;
  // The program may use a text of any length; checkpoints and messages use its digest.
  running_digest digest;
  digest.add(std::as_bytes(std::span(made.digest)));
  made.digest = digest.hex();
  return made;
}

// -- checks against a job ---------------------------------------------------------------------------------------------

std::string targets_text(const nn::data_form& form) {
  if (form.classes > 0) return fmt::format("{} classes", form.classes);
  return fmt::format("{} target value{} a sample", form.values, form.values == 1 ? "" : "s");
}

/// Classes may also be used as values.
std::optional<std::string> check_own_loss(const job& what, const nn::data_form& form) {
  const bool needs_two = what.loss == loss_kind::bce_logits;
  const bool fits = needs_two ? form.classes == 2 : form.classes > 0 || what.loss == loss_kind::mse;
  if (fits) return std::nullopt;
  return fmt::format("--loss {}: needs targets in {}classes, {} has {}; use {}", codecs::loss_name().write(what.loss),
                     needs_two ? "2 " : "", printable_path(what.data), targets_text(form),
                     form.classes > 0 ? "cross-entropy or mse" : "mse");
}

std::optional<std::string> check_own_tables(const job& what, const std::vector<table_spec>& tables) {
  std::uint64_t left = own_weights_max;
  for (std::size_t table = 0; table < tables.size(); ++table) {
    const auto rows = static_cast<std::uint64_t>(tables[table].rows);
    if (rows > left / tables[table].dim)
      return fmt::format(
          "--data {}: tables 0 to {} would have more than {} weights; use fewer rows, or a smaller --dim",
          printable_path(what.data), table, own_weights_max);
    left -= rows * tables[table].dim;
  }
  return std::nullopt;
}

// -- the rows --------------------------------------------------------------------------------------------------------

class own_rows final : public dataset {
 public:
  /// Requires: the job has no more trainers than `of` has rows.
  own_rows(const job& job, std::shared_ptr<const opened_data> of)
      : name_(printable_path(job.data)),
        loss_(job.loss),
        of_(std::move(of)),
        sampler_(epochs_of(job, of_->rows), job.seed) {
    const nn::data_form& form = of_->form;
    spec_.tables = form.tables;
    for (table_spec& table : spec_.tables)
      if (table.dim == 0) table.dim = job.dim;
    spec_.dense_features = form.dense_features;
    spec_.image = form.image;
    spec_.outputs = form.classes > 0 ? outputs_for(loss_, form.classes) : form.values;
    spec_.binary_targets = form.classes == 2;
    ids_ = ids_of(job, spec_);
  }

  const data_spec& spec() const override { return spec_; }
  std::string digest() const override { return of_->digest; }
  epoch_plan epochs() const override { return sampler_.epochs(); }
  std::optional<std::uint64_t> train_rows() const override { return of_->rows; }

  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    const auto share = sampler_.of(step, rank);
    std::vector<std::uint64_t> rows(share.size());
    for (std::size_t sample = 0; sample < rows.size(); ++sample) rows[sample] = share.row(sample);
    return read(rows, false);
  }

  std::uint64_t test_rows() const override { return of_->test_rows; }

  result<batch> test_batch(std::uint64_t first, std::size_t count) const override {
    std::vector<std::uint64_t> rows(count);
    std::iota(rows.begin(), rows.end(), first);
    return read(rows, true);
  }

 private:
  result<batch> read(const std::vector<std::uint64_t>& rows, bool test) const {
    own_samples samples(of_->form, loss_, ids_, rows);
    const auto thrown = thrown_by([&] {
      if (!rows.empty()) of_->data->read(rows, test, samples);
      samples.finish();
    });
    if (!thrown) return std::move(samples).take();
    return run_fault("--data {}: {}row {}: {}", name_, test ? "test " : "", samples.row(), *thrown);
  }

  std::string name_;
  loss_kind loss_;
  std::shared_ptr<const opened_data> of_;
  sharded_sampler sampler_;
  data_spec spec_;
  std::optional<nn::id_range> ids_;  ///< the ids that the network reads from the dense features
};

}  // namespace

result<std::shared_ptr<const dataset>> open_own(const job& job) {
  static shared_while_held<std::pair<std::string, std::uint64_t>, opened_data> shared;
  TROUPE_TRY(opened, shared.get({job.data, job.seed}, [&job] { return open_added(job); }));
  if (auto wrong = check_own_loss(job, opened->form)) return bad_input(std::move(*wrong));
  if (auto wrong = check_share(job, opened->rows, printable_path(job.data))) return bad_input(std::move(*wrong));
  auto made = std::make_shared<const own_rows>(job, std::move(opened));
  if (auto wrong = check_own_tables(job, made->spec().tables)) return bad_input(std::move(*wrong));
  return made;
}

}  // namespace troupe::model
