// A user's network trains through the trainer's parts: two ranks, each with a dense replica and a sparse client, and
// tables on servers. Weights and rows must match the same training by hand in double.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "actors/trainer/dense_replica.hpp"
#include "actors/trainer/sparse_client.hpp"
#include "tests/actors/spread_tables.hpp"
#include "tests/actors/two_towers.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::own_network_test {
namespace {

using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr std::size_t dim = 3;
constexpr std::size_t ranks = 2;
constexpr std::size_t samples_of_rank = 8;
constexpr std::uint64_t steps = 40;
constexpr double lr = 0.1;
constexpr std::array<std::int64_t, 2> table_rows = {11, 7};

model::data_spec towers_spec() {
  model::data_spec spec;
  for (const std::int64_t rows : table_rows) spec.tables.push_back({rows, dim, kernels::pooling::sum, false});
  return spec;
}

/// One user, one or two items and a target per sample.
std::shared_ptr<const model::batch> batch_of(std::uint64_t step, std::size_t rank) {
  source_of_numbers random(static_cast<std::uint32_t>(1 + step * ranks + rank));
  auto made = std::make_shared<model::batch>();
  made->size = samples_of_rank;
  made->tables.resize(2);
  for (std::size_t i = 0; i < samples_of_rank; ++i) {
    for (std::size_t t = 0; t < 2; ++t) {
      model::bags& b = made->tables[t];
      b.offsets.push_back(static_cast<std::int64_t>(b.indices.size()));
      for (std::size_t n = 0; n < (t == 0 ? 1 : 1 + i % 2); ++n)
        b.indices.push_back(static_cast<std::int64_t>(random.below(static_cast<std::size_t>(table_rows[t]))));
    }
    made->values.push_back(random.number());
  }
  return made;
}

/// The training in double: plain SGD on the mean of the ranks' mean squared errors.
struct by_hand {
  std::vector<double> parameters;             // scale, bias
  std::array<std::vector<double>, 2> tables;  // [rows, dim]
  std::vector<double> losses;                 // of each step, the ranks' mean

  void step(std::uint64_t number) {
    auto new_parameters = parameters;
    auto new_tables = tables;
    double loss = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto samples = batch_of(number, rank);
      for (std::size_t i = 0; i < samples->size; ++i) {
        std::array<std::vector<double>, 2> pooled = {std::vector<double>(dim), std::vector<double>(dim)};
        each_row(*samples, i, [&](std::size_t t, std::size_t row) {
          for (std::size_t d = 0; d < dim; ++d) pooled[t][d] += tables[t][row * dim + d];
        });
        double error = parameters[dim] - static_cast<double>(samples->values[i]);
        for (std::size_t d = 0; d < dim; ++d) error += parameters[d] * pooled[0][d] * pooled[1][d];
        constexpr double count = samples_of_rank * ranks;
        loss += error * error / count;
        const double rate = lr * 2 * error / count;
        new_parameters[dim] -= rate;
        for (std::size_t d = 0; d < dim; ++d) new_parameters[d] -= rate * pooled[0][d] * pooled[1][d];
        each_row(*samples, i, [&](std::size_t t, std::size_t row) {
          for (std::size_t d = 0; d < dim; ++d) new_tables[t][row * dim + d] -= rate * parameters[d] * pooled[1 - t][d];
        });
      }
    }
    parameters = new_parameters;
    tables = new_tables;
    losses.push_back(loss);
  }

 private:
  template <class F>
  static void each_row(const model::batch& samples, std::size_t i, const F& visit) {
    for (std::size_t t = 0; t < 2; ++t) {
      const model::bags& b = samples.tables[t];
      const auto end = i + 1 < samples.size ? static_cast<std::size_t>(b.offsets[i + 1]) : b.indices.size();
      for (auto at = static_cast<std::size_t>(b.offsets[i]); at < end; ++at)
        visit(t, static_cast<std::size_t>(b.indices[at]));
    }
  }
};

/// The ranks' replicas, their tables, and the test in between, which carries every message.
class trained {
 public:
  explicit trained(std::uint32_t shards) : tables_(towers_spec(), shards, sgd()) {
    for (auto& replica : replicas_) {
      replica.emplace(network_of(net_, dim), squared_error, kernels::host_device(),
                      dense_replica::options{.parameters = {.optimizer = sgd(), .bucket_bytes = 1}});
      replica->start(nn::initial_numbers(*net_, 1).parameters);
    }
  }

  double step(std::uint64_t number) {
    std::vector<std::vector<std::vector<msg::bag_gradient>>> gradients;
    std::vector<std::vector<msg::tensor>> shares(replicas_[0]->buckets());  // by bucket, then rank
    double loss = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      dense_replica& replica = *replicas_[rank];
      sparse_client& client = tables_.client();
      auto context = client.prepare(number, batch_of(number, rank));
      auto answers = tables_.answer(context);
      for (std::size_t s = 0; s < client.servers(); ++s) {
        client.ask(context, s, {}, 0);
        sparse_client::take(context, s, std::move(answers[s]));
      }
      network_input& input = client.input_of(number);
      input.resize(replica.compute(), samples_of_rank, 2 * dim);
      EXPECT_FALSE(client.pool(context, replica.copies(), input));
      replica.open(number);
      replica.begin_pass({.step = number,
                          .size = samples_of_rank,
                          .input = input.data(),
                          .values = context.samples->values,
                          .wants_grad_input = true,
                          .wants_it_on_host = sparse_client::needs_host(context)});
      loss += replica.end_pass().loss / ranks;
      gradients.push_back(client.gradients(context, replica.grad_input(), replica.passed()));
      replica.backward_parameters(true,
                                  [&](std::uint32_t bucket) { shares[bucket].push_back(replica.share(bucket, 0)); });
      EXPECT_FALSE(replica.check_finite(number));
    }
    for (std::uint32_t bucket = 0; bucket < shares.size(); ++bucket)
      for (auto& replica : replicas_) replica->take(bucket, mean(shares[bucket]));
    tables_.apply(number, gradients);
    return loss;
  }

  std::vector<float> weights(std::size_t rank) {
    const msg::tensor now = replicas_[rank]->weights();
    const auto numbers = now.as<float>();
    return {numbers.begin(), numbers.end()};
  }
  std::vector<float> table(std::size_t t) const { return tables_.weights(t); }
  std::uint32_t buckets() const { return replicas_[0]->buckets(); }

 private:
  static model::optimizer_spec sgd() {
    model::optimizer_spec spec;
    spec.lr = lr;
    return spec;
  }

  static msg::tensor mean(const std::vector<msg::tensor>& shares) {
    std::vector<float> sum(shares[0].rows);
    for (const msg::tensor& share : shares)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += share.as<float>()[i];
    for (float& number : sum) number /= static_cast<float>(shares.size());
    const std::size_t count = sum.size();
    return msg::tensor::own(count, 1, std::move(sum));
  }

  const std::shared_ptr<const two_towers> net_ = std::make_shared<two_towers>(dim);
  spread_tables tables_;
  std::array<std::optional<dense_replica>, ranks> replicas_;
};

void expect_near_all(const std::vector<float>& actual, const std::vector<double>& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(static_cast<double>(actual[i]), expected[i], 2e-5) << what << ", number " << i;
}

TEST(OwnNetwork, TrainsAsTheSameArithmeticInDouble) {
  trained real(1);
  by_hand reference;
  for (const float number : real.weights(0)) reference.parameters.push_back(static_cast<double>(number));
  for (std::size_t t = 0; t < 2; ++t)
    for (const float number : real.table(t)) reference.tables[t].push_back(static_cast<double>(number));
  const auto untrained = reference;
  EXPECT_EQ(real.buckets(), 3U) << "one for each layer, and one for the buffer";
  for (std::uint64_t number = 1; number <= steps; ++number) {
    const double loss = real.step(number);
    reference.step(number);
    EXPECT_NEAR(loss, reference.losses.back(), 2e-5) << "step " << number;
  }
  expect_near_all(real.weights(0), reference.parameters, "weights");
  for (std::size_t t = 0; t < 2; ++t) expect_near_all(real.table(t), reference.tables[t], "table");
  EXPECT_TRUE(kernels::test::same_bits(real.weights(0), real.weights(1)));
  EXPECT_LT(reference.losses.back(), reference.losses.front()) << "it has learned something";
  for (std::size_t i = 0; i < untrained.parameters.size(); ++i)
    EXPECT_GT(std::abs(untrained.parameters[i] - reference.parameters[i]), 1e-3) << "weight " << i;
}

TEST(OwnNetwork, NoBitDependsOnTheNumberOfServers) {
  trained one(1);
  trained three(3);
  for (std::uint64_t number = 1; number <= steps; ++number) EXPECT_EQ(one.step(number), three.step(number));
  EXPECT_TRUE(kernels::test::same_bits(one.weights(0), three.weights(1)));
  for (std::size_t t = 0; t < 2; ++t) EXPECT_TRUE(kernels::test::same_bits(one.table(t), three.table(t)));
}

}  // namespace
}  // namespace troupe::actors::own_network_test
