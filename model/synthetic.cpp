// Synthetic data of any size, drawn where they are needed: random bags and a class that follows from them.
//
// What can be learned: every (table, row) has a hidden score for each class, a number in [-32768, 32767] drawn from a
// hash of (seed, table, row), so it takes no memory. A sample's class is the one with the highest sum of scores over
// all its indices; with equal sums the lowest. So the classes are about equally frequent, a model that knows the scores
// is always right, and a sum of embeddings can express them. One row alone says little (it is one of tables x bag), so
// how fast a model learns depends on how often it sees each row: with 1000 rows and otherwise default settings it is
// right for 57 % of the test rows after an epoch, with 100,000 rows it takes many epochs or higher learning rates.

#include "model/datasets.hpp"
#include "model/random.hpp"
#include "model/zipf.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t steps_in_epoch = 100;
constexpr std::uint64_t held_out_rows = 4096;
// One hash gives this many scores of 16 bits.
constexpr std::size_t scores_in_hash = 4;

class synthetic final : public dataset {
 public:
  explicit synthetic(const job& job)
      : seed_(job.seed),
        batch_size_(job.batch_size),
        bag_(job.bag),
        classes_(job.classes),
        rows_(static_cast<std::uint64_t>(job.rows)),
        loss_(job.loss) {
    if (job.id_skew > 0) zipf_.emplace(rows_, job.id_skew);
    spec_.tables.assign(job.tables, {job.rows, job.dim, kernels::pooling::sum, false});
    spec_.outputs = outputs_for(loss_, classes_);
  }

  const data_spec& spec() const override { return spec_; }

  std::uint64_t steps_per_epoch() const override { return steps_in_epoch; }

  batch train_batch(std::uint64_t step, std::uint32_t rank) const override {
    random_sequence random(random_key(seed_, random_stream::synthetic, step, rank));
    return drawn(batch_size_, [&random](std::size_t) -> random_sequence& { return random; });
  }

  std::uint64_t test_rows() const override { return held_out_rows; }

  // A stream for each row, so that rows do not depend on how they are cut into batches.
  batch test_batch(std::uint64_t first, std::size_t count) const override {
    return drawn(count, [this, first](std::size_t sample) {
      return random_sequence(random_key(seed_, random_stream::synthetic_test, first + sample));
    });
  }

 private:
  // `random_of(sample)` is the stream from which a sample's indices come.
  template <class RandomOf>
  batch drawn(std::size_t size, RandomOf random_of) const {
    batch made;
    made.size = size;
    made.tables.resize(spec_.tables.size());
    std::vector<std::uint64_t> keys;
    for (std::size_t t = 0; t < made.tables.size(); ++t) {
      keys.push_back(random_key(seed_, random_stream::planted, t));
      made.tables[t].indices.resize(size * bag_);
      made.tables[t].offsets.resize(size);
    }
    std::vector<std::int64_t> scores(padded_classes());
    for (std::size_t sample = 0; sample < size; ++sample) {
      auto&& random = random_of(sample);
      scores.assign(scores.size(), 0);
      for (std::size_t t = 0; t < made.tables.size(); ++t) {
        const std::size_t start = sample * bag_;
        made.tables[t].offsets[sample] = static_cast<std::int64_t>(start);
        for (std::size_t i = start; i < start + bag_; ++i) {
          const std::uint64_t row = zipf_ ? zipf_->draw(random) : random.below(rows_);
          made.tables[t].indices[i] = static_cast<std::int64_t>(row);
          add_scores(keys[t], row, scores);
        }
      }
      append_target(made, loss_, best(scores));
    }
    return made;
  }

  std::size_t padded_classes() const { return (classes_ + scores_in_hash - 1) / scores_in_hash * scores_in_hash; }

  void add_scores(std::uint64_t key, std::uint64_t row, std::vector<std::int64_t>& scores) const {
    const std::uint64_t hashes = scores.size() / scores_in_hash;
    for (std::uint64_t h = 0; h < hashes; ++h) {
      const std::uint64_t bits = random_bits(key, row * hashes + h);
      for (std::size_t i = 0; i < scores_in_hash; ++i) {
        scores[h * scores_in_hash + i] += static_cast<std::int16_t>(bits >> (16 * i));
      }
    }
  }

  // The scores behind the last class are padding.
  std::size_t best(const std::vector<std::int64_t>& scores) const {
    std::size_t winner = 0;
    for (std::size_t c = 1; c < classes_; ++c) {
      if (scores[c] > scores[winner]) winner = c;
    }
    return winner;
  }

  std::uint64_t seed_;
  std::size_t batch_size_;
  std::size_t bag_;
  std::size_t classes_;
  std::uint64_t rows_;
  loss_kind loss_;
  std::optional<zipf_distribution> zipf_;
  data_spec spec_;
};

}  // namespace

result<std::shared_ptr<const dataset>> open_synthetic(const job& job) { return std::make_shared<const synthetic>(job); }

}  // namespace troupe
