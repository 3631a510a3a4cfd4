// The data of PyTorch's tutorial "Combining Distributed DataParallel with Distributed RPC Framework": random indices
// into a table of 100 rows, cut into bags of random length, with random targets. There is nothing to learn in it.

#include <array>

#include "model/datasets.hpp"
#include "model/random.hpp"

namespace troupe::model {

namespace {

constexpr std::uint64_t rows = 100;
constexpr std::uint64_t tutorial_epoch_steps = 10;
constexpr std::size_t indices_min = 20;
constexpr std::size_t indices_max = 50;

// Returns a row from 32 random bits; the rows' frequencies differ by less than 1e-7.
std::int64_t row_from(std::uint64_t bits) { return static_cast<std::int64_t>((bits * rows) >> 32); }

class tutorial final : public dataset {
 public:
  explicit tutorial(const job& job) : seed_(job.seed), loss_(job.loss) {
    spec_.tables = {{rows, tutorial_dim, kernels::pooling::sum, false, tutorial_mean_bag}};
    spec_.outputs = outputs_for(loss_, tutorial_classes);
  }

  const data_spec& spec() const override { return spec_; }

  epoch_plan epochs() const override { return epoch_plan(tutorial_epoch_steps); }

  // Step and rank key the stream, so a later epoch has other batches. This function costs about as much as the rest of
  // the step: so it uses no growing vectors, and two numbers from each draw.
  result<batch> train_batch(std::uint64_t step, std::uint32_t rank) const override {
    random_sequence random(random_key(seed_, random_stream::tutorial, step, rank));
    const std::size_t count = indices_min + random.below(indices_max - indices_min + 1);
    std::array<std::int64_t, indices_max> offsets;
    std::array<std::uint8_t, indices_max> targets;
    batch drawn;
    for (std::size_t start = 0; start < count;) {
      const std::uint64_t both = random.below(tutorial_bag_max * tutorial_classes);
      offsets[drawn.size] = static_cast<std::int64_t>(start);
      targets[drawn.size] = static_cast<std::uint8_t>(both % tutorial_classes);
      start += 1 + both / tutorial_classes;
      ++drawn.size;
    }
    drawn.tables.resize(1);
    auto& bags = drawn.tables.front();
    bags.offsets.assign(offsets.begin(), offsets.begin() + drawn.size);
    bags.indices.resize(count);
    for (std::size_t i = 0; i < count; i += 2) {
      const std::uint64_t bits = random.bits();
      bags.indices[i] = row_from(bits >> 32);
      if (i + 1 < count) bags.indices[i + 1] = row_from(bits & 0xffffffff);
    }
    if (loss_ == loss_kind::cross_entropy)
      drawn.classes.assign(targets.begin(), targets.begin() + drawn.size);
    else
      drawn.values.assign(targets.begin(), targets.begin() + drawn.size);
    return drawn;
  }

 private:
  std::uint64_t seed_;
  loss_kind loss_;
  data_spec spec_;
};

}  // namespace

result<std::shared_ptr<const dataset>> open_tutorial(const job& job) { return std::make_shared<const tutorial>(job); }

}  // namespace troupe::model
