// Networks in slices: the same bits as a job with as many slices, the whole network's numbers, checkpoints, and errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cluster/nodes/run_job.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "tests/expect_finds.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::tensor_parallel_test {
namespace {

using test::error_of;
using test::run_with;
using embedding_bag = nn::embedding_bag;

// -- compared with a job --------------------------------------------------------------------

constexpr int epochs = 3;
constexpr std::size_t dim = 16;

model::job job_with(const std::vector<model::setting>& given) {
  std::vector<model::setting> all = {{"data", "tutorial"}, {"epochs", std::to_string(epochs)}, {"hidden", "32"}};
  all.insert(all.end(), given.begin(), given.end());
  return model::parse_job(all).value();
}

/// The job's network; a job initializes its layers with other random keys than a program's `sequential`.
nn::sequential network_of_job() { return nn::sequential(nn::linear(dim, 32), nn::relu(), nn::linear(32, 8)); }
named_tensors weights_of_job() {
  const model::job what = job_with({});
  const auto drawn = nn::initial_numbers(model::hybrid_model(model::spec_of(what).value(), what), what.seed);
  named_tensors state;
  for (const nn::parameter& one : nn::placed(network_of_job().parameters()))
    state.emplace_back(one.name,
                       tensor::of<float>(one.shape, std::span(drawn.parameters).subspan(one.first, one.count())));
  return state;
}

/// The first slice looks up the rows for the others.
task<> train_tutorial(trainer me, remote_module<embedding_bag> embedding, std::uint32_t slices) {
  const std::uint32_t slice = me.rank() % slices, replica = me.rank() / slices;
  std::vector<std::uint32_t> ranks(slices);
  for (std::uint32_t i = 0; i < slices; ++i) ranks[i] = replica * slices + i;
  const group along = me.group().subgroup(ranks);
  auto model = me.data_parallel(network_of_job(), {.tensor_parallel = slices});
  model.load_state_dict(weights_of_job());
  distributed_optimizer optimizer(sgd{.lr = 0.05}, embedding, model);
  for (const auto epoch : me.steps(epochs))
    for (const auto& [indices, offsets, target] : me.batches(tutorial_batches(me.seed(), replica, epoch))) {
      auto context = me.new_context();
      tensor rows({target.size(), dim});
      if (slice == 0) rows = co_await embedding.forward(context, indices, offsets);
      const tensor shared = co_await along.broadcast(rows, 0);
      const tensor outputs = model(context, slice == 0 ? rows : shared);
      co_await context.backward(nn::cross_entropy(context, outputs, target));
      co_await optimizer.step(context);
    }
}

std::string digest(run_options options, std::uint32_t slices) {
  test::made_cluster cluster;
  const auto embedding =
      cluster.server(0).make<embedding_bag>({.num_embeddings = 100, .embedding_dim = dim, .mode = nn::pooling::sum});
  return cluster.run(options, train_tutorial, embedding, slices).weights_digest;
}

std::string digest_of_job(const std::vector<model::setting>& given) {
  return nodes::run_job(job_with(given), {}, nullptr).value().weights_digest;
}

TEST(TensorParallel, HasTheJobsBits) {
  for (const std::uint32_t slices : {2U, 4U}) {
    const std::string text = std::to_string(slices);
    EXPECT_EQ(digest({.trainers = 2 * slices}, slices), digest_of_job({{"tensor-parallel", text}})) << slices;
  }
  EXPECT_NE(digest_of_job({{"tensor-parallel", "2"}}), digest_of_job({})) << "the sums are other ones";
}

TEST(TensorParallel, ClipsAsTheJobDoes) {
  const std::vector<model::setting> job = {{"tensor-parallel", "2"}, {"clip-norm", "0.02"}};
  ASSERT_NE(digest_of_job(job), digest_of_job({{"tensor-parallel", "2"}})) << "the limit has no effect";
  EXPECT_EQ(digest({.trainers = 4, .clip_norm = 0.02}, 2), digest_of_job(job));
}

// -- compared with the whole network --------------------------------------------------------

constexpr std::size_t features = 6;
constexpr std::size_t classes = 3;

/// Two pairs of sliced layers, with buffers and random numbers between them.
nn::sequential network() {
  return nn::sequential(nn::linear(features, 8), nn::relu(), nn::linear(8, 8), nn::batch_norm({.channels = 8}),
                        nn::dropout(0.25), nn::linear(8, 12), nn::gelu(), nn::linear(12, classes));
}

struct batch {
  tensor x;
  std::vector<std::int64_t> y;
};

batch make_batch(std::uint64_t step, std::uint32_t replica) {
  constexpr std::size_t samples = 7;
  batch made{tensor({samples, features}), std::vector<std::int64_t>(samples)};
  const auto x = made.x.as<float>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * 7 + step * 13 + replica * 5));
  for (std::size_t i = 0; i < samples; ++i) made.y[i] = static_cast<std::int64_t>((i + step + replica) % classes);
  return made;
}

struct training {
  std::uint32_t slices = 1;
  int steps = 6;
  int break_after = 0;
  std::vector<std::vector<double>> losses = {};  ///< by rank
  tensor outputs = {};                           ///< of rank 0, at the end, without training
};

task<> train(trainer me, training* how) {
  auto model = me.data_parallel(network(), {.tensor_parallel = how->slices});
  distributed_optimizer optimizer(sgd{.lr = 0.1, .momentum = 0.9}, model);
  const std::uint32_t replica = me.rank() / how->slices;
  int steps = 0;
  for (const auto step : me.steps(static_cast<std::uint64_t>(how->steps))) {
    auto context = me.new_context();
    const batch now = make_batch(step, replica);
    const tensor loss = nn::cross_entropy(context, model(context, now.x), now.y);
    how->losses.at(me.rank()).push_back(loss.item());
    co_await context.backward(loss);
    co_await optimizer.step(context);
    if (++steps == how->break_after && me.rank() == 1) throw std::runtime_error("the power has failed");
  }
  auto context = me.no_grad();
  const tensor outputs = model(context, make_batch(100, 0).x);
  if (me.rank() == 0) how->outputs = outputs;
}

std::string trained(std::uint32_t replicas, training& how, std::vector<std::string> text = {}) {
  const std::uint32_t trainers = replicas * how.slices;
  how.losses.assign(trainers, {});
  return run_with(test::arguments(std::move(text)), trainers, train, &how).weights_digest;
}

TEST(TensorParallel, ComputesWhatTheWholeNetworkDoes) {
  for (const std::uint32_t replicas : {1U, 2U}) {
    training whole;
    trained(replicas, whole);
    for (const std::uint32_t slices : {2U, 4U}) {
      training cut{.slices = slices};
      trained(replicas, cut);
      for (std::uint32_t rank = 0; rank < replicas * slices; ++rank) {
        const auto& losses = cut.losses[rank];
        EXPECT_EQ(losses, cut.losses[rank - rank % slices]) << "all slices of a replica have the same bits";
        const auto& expected = whole.losses[rank / slices];
        ASSERT_EQ(losses.size(), expected.size());
        for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << slices << ' ' << i;
      }
      for (std::size_t i = 0; i < whole.outputs.count(); ++i)
        EXPECT_NEAR(cut.outputs.as<float>()[i], whole.outputs.as<float>()[i], 1e-3) << slices << ' ' << i;
    }
  }
}

TEST(TensorParallel, IsResumedWithTheBitsOfTheUnbrokenRun) {
  training unbroken{.slices = 2, .steps = 8};
  const std::string expected = trained(2, unbroken);
  const trace::temporary_folder folder;
  training broken{.slices = 2, .steps = 8, .break_after = 5};
  EXPECT_THROW(trained(2, broken, {"--save", folder.path().string(), "--checkpoint-every", "2", "--restarts", "0"}),
               error);
  training resumed{.slices = 2, .steps = 8};
  EXPECT_EQ(trained(2, resumed, {"--resume", folder.path().string()}), expected);
  EXPECT_EQ(resumed.losses[3], std::vector(unbroken.losses[3].begin() + 4, unbroken.losses[3].end()));
  for (const std::uint32_t slices : {1U, 4U}) {
    training other{.slices = slices, .steps = 8};
    const std::string text = error_of([&] { trained(4 / slices, other, {"--resume", folder.path().string()}); });
    EXPECT_NE(text, "no error") << slices << " slices";
    if (slices == 4) {
      EXPECT_FINDS(text, "the checkpoint has no replica0.slice");
    }
  }
}

/// The first slice has computed the input; the others were given it.
task<> train_with_given_inputs(trainer me, std::vector<std::vector<float>>* outputs) {
  auto model = me.data_parallel(
      nn::sequential(nn::linear(features, 8), nn::relu(), nn::linear(8, 40), nn::dropout(0.5)), {.tensor_parallel = 2});
  distributed_optimizer optimizer(sgd{}, model);
  for (std::uint64_t step = 0; step < 3; ++step) {
    auto context = me.new_context();
    tensor x = make_batch(step, 0).x;
    if (me.rank() == 0) x = scale(context, x, 1);
    const tensor y = model(context, x);
    const auto numbers = y.as<float>();
    outputs->at(me.rank()).insert(outputs->at(me.rank()).end(), numbers.begin(), numbers.end());
    const std::vector<float> target(y.count(), 0.5F);
    co_await context.backward(nn::mse_loss(context, y, tensor::of<float>(y.shape(), target)));
    co_await optimizer.step(context);
  }
}

TEST(TensorParallel, HasOneMaskWhateverItsTrainersComputeBefore) {
  std::vector<std::vector<float>> outputs(2);
  test::run(2, train_with_given_inputs, &outputs);
  EXPECT_EQ(outputs[0], outputs[1]);
  const auto zeros = std::ranges::count(outputs[0], 0.0F);
  EXPECT_GT(zeros, static_cast<std::ptrdiff_t>(outputs[0].size() / 4));
  EXPECT_LT(zeros, static_cast<std::ptrdiff_t>(outputs[0].size() * 3 / 4));
}

// -- states -------------------------------------------------------------------------------

task<> exchange_states(trainer me, named_tensors whole, std::vector<named_tensors>* states,
                       std::vector<tensor>* outputs) {
  auto model = me.data_parallel(network(), {.tensor_parallel = 2});
  model.load_state_dict(whole);
  states->at(me.rank()) = model.state_dict();
  model.load_state_dict(states->at(me.rank()));  // it also loads the slices that it has saved
  auto context = me.no_grad();
  outputs->at(me.rank()) = model(context, make_batch(1, 0).x);
  co_return;
}

task<> read_whole(trainer me, named_tensors* state, tensor* outputs) {
  auto model = me.data_parallel(network(), {.name = "other"});
  *state = model.state_dict();
  for (auto& [name, numbers] : *state)
    for (float& x : numbers.as<float>()) x += 0.125F;
  model.load_state_dict(*state);
  auto context = me.no_grad();
  *outputs = model(context, make_batch(1, 0).x);
  co_return;
}

TEST(TensorParallel, LoadsTheWholeNetworksState) {
  named_tensors state;
  tensor expected;
  test::run(1, read_whole, &state, &expected);
  std::vector<named_tensors> states(2);
  std::vector<tensor> outputs(2);
  test::run(2, exchange_states, state, &states, &outputs);
  for (std::size_t i = 0; i < expected.count(); ++i) {
    EXPECT_NEAR(outputs[0].as<float>()[i], expected.as<float>()[i], 1e-5);
    EXPECT_EQ(outputs[0].as<float>()[i], outputs[1].as<float>()[i]);
  }
  // Layer 0's [8, 6] is split by its outputs, layer 2's [8, 8] by its inputs.
  const auto numbers = [](const named_tensors& of, const std::string& name) {
    const auto found = std::ranges::find(of, name, &named_tensors::value_type::first);
    return found == of.end() ? tensor({0}) : found->second;
  };
  const tensor first = numbers(state, "0.weight"), second = numbers(state, "2.weight");
  for (std::uint32_t slice = 0; slice < 2; ++slice) {
    const tensor mine = numbers(states[slice], "0.weight"), other = numbers(states[slice], "2.weight");
    ASSERT_EQ(mine.shape(), shape({4, features}));
    ASSERT_EQ(other.shape(), shape({8, 4}));
    for (std::size_t i = 0; i < 4; ++i)
      for (std::size_t j = 0; j < features; ++j)
        EXPECT_EQ(mine.as<float>()[i * features + j], first.as<float>()[(slice * 4 + i) * features + j]);
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = 0; j < 4; ++j)
        EXPECT_EQ(other.as<float>()[i * 4 + j], second.as<float>()[i * 8 + slice * 4 + j]);
  }
}

// -- errors ---------------------------------------------------------------------------------

template <class Network>
std::string refusal(std::uint32_t trainers, Network network, data_parallel_options options) {
  const std::string text = error_of(
      trainers,
      [](trainer me, Network what, data_parallel_options how) -> task<> {
        me.data_parallel(what, how);
        co_return;
      },
      network, options);
  return text.substr(std::min(text.find("data_parallel"), text.size()));
}

TEST(TensorParallelErrors, NameWhatCannotBeCut) {
  const nn::sequential pair(nn::linear(4, 6), nn::relu(), nn::linear(6, 2));
  EXPECT_EQ(refusal(3, pair, {.tensor_parallel = 2}),
            "data_parallel: tensor_parallel 2: the run has 3 trainers; each slice has a trainer of its own in each "
            "replica, so there must be 2, or a multiple of that");
  EXPECT_EQ(refusal(1, pair, {.tensor_parallel = 0}),
            "data_parallel: tensor_parallel 0: the run has 1 trainers; each slice has a trainer of its own in each "
            "replica, so there must be 1 slice, or a multiple of that");
  EXPECT_EQ(refusal(4, pair, {.tensor_parallel = 4}),
            "data_parallel: tensor_parallel 4: layer 0 (nn::sequential) has 6 outputs, which 4 slices cannot share "
            "equally; use a divisor of 6, or another width");
  EXPECT_EQ(refusal(2, nn::sequential(nn::linear(4, 6), nn::layer_norm(6), nn::linear(6, 2)), {.tensor_parallel = 2}),
            "data_parallel: tensor_parallel 2: the network (nn::sequential) has no two linear layers with only relu or "
            "gelu between them, which slices share; leave it out");
  EXPECT_EQ(refusal(2, nn::linear(4, 6), {.tensor_parallel = 2}),
            "data_parallel: tensor_parallel 2: linear is not a list of layers to cut; give it as nn::sequential(...)");
  EXPECT_EQ(refusal(2, pair, {.synchronized = false, .tensor_parallel = 2}),
            "data_parallel: tensor_parallel 2: a replica with a group, or not synchronized, has no slices; leave "
            "out one or the other");
  const nn::sequential norm(nn::linear(4, 6), nn::linear(6, 2), nn::batch_norm({.channels = 2, .synchronized = true}));
  EXPECT_EQ(
      refusal(2, norm, {.tensor_parallel = 2}),
      "data_parallel: tensor_parallel 2: a module in the network synchronizes, and the slices have the same batch; "
      "use one that does not, as batch_norm without .synchronized");
}

/// One slice is in a pass, the other in a step.
TEST(TensorParallelErrors, NameSlicesThatWaitForEachOther) {
  const std::string text = error_of(2, [](trainer me) -> task<> {
    auto model = me.data_parallel(network(), {.tensor_parallel = 2});
    distributed_optimizer optimizer(sgd{}, model);
    auto context = me.new_context();
    if (me.rank() == 0) model(context, make_batch(0, 0).x);
    co_await optimizer.step(context);
  });
  EXPECT_FINDS(text, "wait for each other");
}

/// The slices of a replica must use the same batch.
TEST(TensorParallelErrors, NameSlicesWithOtherBatches) {
  const std::string text = error_of(2, [](trainer me) -> task<> {
    auto model = me.data_parallel(network(), {.tensor_parallel = 2});
    auto context = me.new_context();
    const tensor x({me.rank() == 0 ? 4UL : 3UL, features});
    model(context, x);
    co_return;
  });
  EXPECT_FINDS(text, "all_reduce");
}

}  // namespace
}  // namespace troupe::tensor_parallel_test
