// Synthetic data of any size, computed on demand: random bags and a class that depends on them.
//
// What can be learned: every row of every table belongs to a class, by a hash of (seed, table, row), which needs no
// memory. A sample's class is drawn first, then its indices; four out of five of these (`pull`) move to the row of the
// sample's class in their block. A block has as many neighbouring rows as there are classes, one of each class. So all
// classes are equally frequent, the frequencies of blocks follow the skew, and a sum of embeddings indicates the class,
// the better the more indices a sample has. How fast a model learns depends on how often it sees each row: with 1000
// rows and otherwise default settings it is right for about 62 % of the test rows after one epoch; with 100,000 rows
// that takes many epochs or higher learning rates.

#include "base/uint128.hpp"
#include "kernels/idle_threads.hpp"
#include "model/datasets.hpp"
#include "model/random.hpp"
#include "model/zipf.hpp"

namespace troupe::model {

namespace {

constexpr std::uint64_t synthetic_epoch_steps = 100;
constexpr std::uint64_t held_out_rows = 4096;
// The share of a sample's indices that are moved to a row of its class.
constexpr double pull = 0.8;

class synthetic final : public dataset {
 public:
  explicit synthetic(const job& job)
      : seed_(job.seed),
        epochs_(epochs_of(job, synthetic_epoch_steps * first_step_samples(job))),
        bag_(job.bag),
        classes_(job.classes),
        reciprocal_(UINT64_MAX / job.classes + 1),
        rows_(static_cast<std::uint64_t>(job.rows)),
        loss_(job.loss) {
    if (job.id_skew > 0) zipf_.emplace(rows_, job.id_skew);
    spec_.tables.assign(job.tables, {job.rows, job.dim, kernels::pooling::sum, false, static_cast<double>(job.bag)});
    for (std::size_t t = 0; t < job.tables; ++t) keys_.push_back(random_key(seed_, random_stream::planted, t));
    spec_.outputs = outputs_for(loss_, classes_);
    spec_.binary_targets = classes_ == 2;
  }

  const data_spec& spec() const override { return spec_; }

  epoch_plan epochs() const override { return epochs_; }

  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    const std::uint64_t key = random_key(seed_, random_stream::synthetic, step, rank);
    const auto size = static_cast<std::size_t>(epochs_.of(step).size_of(rank));
    if (!zipf_) return uniform(size, [&](std::size_t sample) { return place{key, sample * draws()}; });
    random_sequence random(key);
    return skewed(size, [&random](std::size_t) -> random_sequence& { return random; });
  }

  std::uint64_t test_rows() const override { return held_out_rows; }

  // Each row has its own stream, so that rows do not depend on the batches.
  result<batch> test_batch(std::uint64_t first, std::size_t count) const override {
    const auto key_of = [&](std::size_t sample) {
      return random_key(seed_, random_stream::synthetic_test, first + sample);
    };
    if (!zipf_) return uniform(count, [&](std::size_t sample) { return place{key_of(sample), 0}; });
    return skewed(count, [&](std::size_t sample) { return random_sequence(key_of(sample)); });
  }

 private:
  // The count of numbers that a sample with uniform indices uses: one for its class, two for each index.
  std::uint64_t draws() const { return 1 + 2 * spec_.tables.size() * bag_; }

  // The position of a sample's random numbers.
  struct place {
    std::uint64_t key;
    std::uint64_t first;
  };

  // Makes samples with uniform indices, side by side. `place_of(sample)`: the position of its random numbers.
  template <class PlaceOf>
  batch uniform(std::size_t size, PlaceOf place_of) const {
    batch made = empty(size);
    std::vector<std::uint64_t> targets(size);
    constexpr std::size_t bytes_in_the_time_of_a_draw = 32;
    kernels::in_ranges(size, size * draws() * bytes_in_the_time_of_a_draw, [&](std::size_t first, std::size_t last) {
      std::vector<std::uint64_t> numbers(draws());
      std::vector<std::uint64_t> blocks(bag_);
      std::vector<std::uint64_t> hashes(bag_);
      for (std::size_t sample = first; sample < last; ++sample) {
        const place from = place_of(sample);
        kernels::draw_bits(from.key, from.first, numbers);
        const std::uint64_t target = targets[sample] = below_from(numbers[0], classes_);
        const std::uint64_t* next = numbers.data() + 1;
        for (std::size_t t = 0; t < made.tables.size(); ++t, next += 2 * bag_) {
          for (std::size_t i = 0; i < bag_; ++i) blocks[i] = block_of(below_from(next[2 * i], rows_));
          kernels::draw_bits(keys_[t], blocks, hashes.data());
          std::int64_t* const indices = made.tables[t].indices.data() + sample * bag_;
          for (std::size_t i = 0; i < bag_; ++i)
            indices[i] =
                pulled(below_from(next[2 * i], rows_), unit_from(next[2 * i + 1]), target, blocks[i], hashes[i]);
        }
      }
    });
    for (const std::uint64_t target : targets) append_target(made, loss_, target);
    return made;
  }

  // Makes samples whose indices use a variable count of numbers. `random_of(sample)`: their stream.
  template <class RandomOf>
  batch skewed(std::size_t size, RandomOf random_of) const {
    batch made = empty(size);
    for (std::size_t sample = 0; sample < size; ++sample) {
      auto&& random = random_of(sample);
      const std::uint64_t target = random.below(classes_);
      for (std::size_t t = 0; t < made.tables.size(); ++t)
        for (std::size_t i = sample * bag_; i < (sample + 1) * bag_; ++i) {
          const std::uint64_t row = zipf_->draw(random);
          const std::uint64_t block = block_of(row);
          made.tables[t].indices[i] = pulled(row, random.unit(), target, block, random_bits(keys_[t], block));
        }
      append_target(made, loss_, target);
    }
    return made;
  }

  batch empty(std::size_t size) const {
    batch made;
    made.size = size;
    made.tables.resize(spec_.tables.size());
    for (bags& one : made.tables) {
      one.indices.resize(size * bag_);
      one.offsets.resize(size);
      for (std::size_t sample = 0; sample < size; ++sample)
        one.offsets[sample] = static_cast<std::int64_t>(sample * bag_);
    }
    return made;
  }

  // Returns the drawn row, or the row of the sample's class in its block. `hash`: the block's.
  std::int64_t pulled(std::uint64_t row, double unit, std::uint64_t target, std::uint64_t block,
                      std::uint64_t hash) const {
    // The block's rows have the classes in order, beginning with a random one.
    const std::uint64_t first = below_from(hash, classes_);
    const std::uint64_t moved = block * classes_ + (target >= first ? target - first : target + classes_ - first);
    // The last block may be short. Without a branch, since processors would mispredict one in five draws.
    const std::uint64_t pulls = std::uint64_t{0} - static_cast<std::uint64_t>((unit < pull) & (moved < rows_));
    return static_cast<std::int64_t>((moved & pulls) | (row & ~pulls));
  }

  // row / classes_, by a multiplication: rows and classes are at most 10^12 and 65536.
  std::uint64_t block_of(std::uint64_t row) const { return multiply_high(row, reciprocal_); }

  std::uint64_t seed_;
  epoch_plan epochs_;
  std::size_t bag_;
  std::uint64_t classes_;
  std::uint64_t reciprocal_;  // 2^64 / classes_, rounded up
  std::uint64_t rows_;
  loss_kind loss_;
  std::optional<zipf_distribution> zipf_;
  std::vector<std::uint64_t> keys_;  // by table: the key for the hashes of its blocks
  data_spec spec_;
};

}  // namespace

result<std::shared_ptr<const dataset>> open_synthetic(const job& job) { return std::make_shared<const synthetic>(job); }

}  // namespace troupe::model
