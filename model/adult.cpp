// The data set UCI Adult: 8 tables of one index a sample, 6 numbers, and whether the income is above 50K.

#include "model/adult.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "model/sampler.hpp"

namespace troupe::model {

namespace {

class adult final : public dataset {
 public:
  adult(std::shared_ptr<const adult_data> data, const job& job)
      : data_(std::move(data)), loss_(job.loss), sampler_(epochs_of(job, data_->train.size()), job.seed) {
    for (const std::int64_t rows : data_->table_rows)
      spec_.tables.push_back({rows, job.dim, kernels::pooling::sum, false});
    spec_.dense_features = adult_dense_features;
    spec_.outputs = outputs_for(loss_, adult_classes);
    spec_.binary_targets = true;
  }

  const data_spec& spec() const override { return spec_; }

  epoch_plan epochs() const override { return sampler_.epochs(); }
  std::optional<std::uint64_t> train_rows() const override { return data_->train.size(); }

  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    const auto share = sampler_.of(step, rank);
    batch taken = sized(share.size());
    for (std::size_t i = 0; i < taken.size; ++i) copy_row(data_->train[share.row(i)], taken, i);
    return taken;
  }

  std::uint64_t test_rows() const override { return data_->test.size(); }

  result<batch> test_batch(std::uint64_t first, std::size_t count) const override {
    batch taken = sized(count);
    for (std::size_t i = 0; i < taken.size; ++i) copy_row(data_->test[first + i], taken, i);
    return taken;
  }

 private:
  batch sized(std::size_t size) const {
    batch made;
    made.size = size;
    made.tables.resize(adult_tables);
    for (auto& bags : made.tables) {
      bags.indices.resize(size);
      bags.offsets.resize(size);
    }
    made.dense.resize(size * adult_dense_features);
    return made;
  }

  void copy_row(const adult_row& row, batch& to, std::size_t sample) const {
    for (std::size_t i = 0; i < adult_tables; ++i) {
      to.tables[i].indices[sample] = row.categories[i];
      to.tables[i].offsets[sample] = static_cast<std::int64_t>(sample);
    }
    std::ranges::copy(row.numbers, to.dense.begin() + static_cast<std::ptrdiff_t>(sample * adult_dense_features));
    append_target(to, loss_, row.above_50k ? 1 : 0);
  }

  std::shared_ptr<const adult_data> data_;
  loss_kind loss_;
  sharded_sampler sampler_;
  data_spec spec_;
};

}  // namespace

result<std::shared_ptr<const dataset>> open_adult(const job& job) {
  static shared_while_held<int, adult_data> shared;
  TROUPE_TRY(data, shared.get(0, read_adult));
  if (auto wrong = check_share(job, data->train.size(), "adult")) return bad_input(std::move(*wrong));
  return std::make_shared<const adult>(std::move(data), job);
}

}  // namespace troupe::model
