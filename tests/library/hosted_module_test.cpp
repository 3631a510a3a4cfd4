// Network modules on servers: the same bits as replicas anywhere; state; errors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/own_modules.hpp"
#include "troupe/troupe.hpp"

namespace troupe::hosted_module_test {
namespace {

tensor batch_of(std::uint32_t rank, int step) {
  std::vector<float> numbers(4 * 6);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>((i * 7 + rank * 3 + static_cast<std::size_t>(step)) % 11) / 8 - 0.6F;
  return tensor::of<float>({4, 6}, numbers);
}

const std::vector<std::int64_t> classes = {0, 2, 1, 2};

/// Two linear layers; `first` is any callable that applies the first one.
template <class Optimizer>
task<> train_far(trainer me, remote_module<nn::linear> first, Optimizer choice, std::vector<float>* weights) {
  auto last = me.data_parallel(nn::linear(5, 3));
  distributed_optimizer optimizer(choice, first, last);
  for (int step = 0; step < 10; ++step) {
    auto context = me.new_context();
    auto hidden = co_await first.forward(context, batch_of(me.rank(), step));
    co_await context.backward(nn::cross_entropy(context, last(context, hidden), classes));
    co_await optimizer.step(context);
  }
  if (me.rank() != 1) co_return;
  const auto state = co_await first.state_dict();
  for (const auto& [name, numbers] : state) {
    const auto all = numbers.template as<float>();
    weights->insert(weights->end(), all.begin(), all.end());
  }
  const auto more = last.parameters();
  weights->insert(weights->end(), more.begin(), more.end());
}

/// Continues before the backward pass is over.
task<> hurry(trainer me, remote_module<nn::linear> first) {
  distributed_optimizer optimizer(sgd{.lr = 0.1}, first);
  auto context = me.new_context();
  const tensor x = batch_of(0, 0);
  auto y = co_await first.forward(context, x);
  auto z = co_await first.forward(context, x);
  const tensor loss = nn::cross_entropy(context, y, classes);
  const tensor another = nn::cross_entropy(context, z, classes);
  auto going = context.backward(loss);
  EXPECT_ERROR(co_await optimizer.step(context), "optimizer step while backward is under way; co_await it first");
  EXPECT_ERROR(co_await context.backward(another), "a second backward while backward is under way; co_await it first");
  co_await std::move(going);
  co_await context.backward(another);
  co_await optimizer.step(context);
}

TEST(HostedModules, TakeNoStepWhileTheWayBackIsUnderWay) {
  test::made_cluster cluster;
  cluster.run(1, hurry, cluster.server(0).make<nn::linear>({.in_features = 6, .out_features = 3}));
}

TEST(HostedModules, TrainToTheSameBitsOnEveryServerAndNumberOfThreads) {
  std::vector<std::vector<float>> results;
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    test::made_cluster cluster({"--servers", "3", "--threads", rank == 0 ? "1" : "4"});
    const auto first = cluster.server(rank).make<nn::linear>({.in_features = 6, .out_features = 5});
    std::vector<float> weights;
    const auto run = cluster.run(2, train_far<adam>, first, adam{.lr = 0.01}, &weights);
    EXPECT_EQ(run.steps, 10U);
    results.push_back(weights);
  }
  EXPECT_EQ(results[0].size(), 6U * 5 + 5 + 5 * 3 + 3);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

/// Uses one layer, so that the initial parameters of both variants are those of layer number 0.
task<> one_far(trainer me, remote_module<nn::linear> layer, std::vector<float>* weights) {
  distributed_optimizer optimizer(sgd{.lr = 0.1, .momentum = 0.9}, layer);
  for (int step = 0; step < 10; ++step) {
    auto context = me.new_context();
    auto out = co_await layer.forward(context, batch_of(me.rank(), step));
    co_await context.backward(nn::cross_entropy(context, out, classes));
    co_await optimizer.step(context);
  }
  if (me.rank() != 1) co_return;
  const auto state = co_await layer.state_dict();
  for (const auto& [name, numbers] : state) {
    const auto all = numbers.as<float>();
    weights->insert(weights->end(), all.begin(), all.end());
  }
}

task<> one_near(trainer me, std::vector<float>* weights) {
  auto layer = me.data_parallel(nn::linear(6, 3));
  distributed_optimizer optimizer(sgd{.lr = 0.1, .momentum = 0.9}, layer);
  for (int step = 0; step < 10; ++step) {
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, layer(context, batch_of(me.rank(), step)), classes));
    co_await optimizer.step(context);
  }
  if (me.rank() == 1) *weights = layer.parameters();
}

TEST(HostedModules, HaveTheBitsOfAReplica) {
  std::vector<float> far;
  {
    test::made_cluster cluster;
    cluster.run(3, one_far, cluster.server(0).make<nn::linear>({.in_features = 6, .out_features = 3}), &far);
  }
  std::vector<float> near;
  {
    test::made_cluster cluster;
    cluster.run(3, one_near, &near);
  }
  EXPECT_EQ(far, near);
}

// -- the input's gradient --------------------------------------------------------------

/// A replica below a module on a server; one step of SGD with rate 1.
task<> step_below(trainer me, remote_module<nn::linear> last, named_tensors* head, std::vector<float>* before,
                  std::vector<float>* after, std::vector<float>* outputs) {
  auto first = me.data_parallel(nn::linear(6, 5));
  distributed_optimizer optimizer(sgd{.lr = 1}, first, last);
  *head = co_await last.state_dict();
  *before = first.parameters();
  auto context = me.new_context();
  const auto out = co_await last.forward(context, first(context, batch_of(0, 0)));
  outputs->assign(out.as<float>().begin(), out.as<float>().end());
  co_await context.backward(nn::cross_entropy(context, out, classes));
  co_await optimizer.step(context);
  *after = first.parameters();
}

TEST(HostedModules, GiveTheirInputsGradientBack) {
  named_tensors head;
  std::vector<float> before;
  std::vector<float> after;
  std::vector<float> out;
  test::made_cluster cluster;
  cluster.run(1, step_below, cluster.server(0).make<nn::linear>({.in_features = 5, .out_features = 3}), &head, &before,
              &after, &out);
  const auto x = batch_of(0, 0);
  const auto weight = head.at(0).second.as<float>();  // [3, 5]
  for (std::size_t o = 0; o < 5; ++o)
    for (std::size_t i = 0; i < 6; ++i) {
      double gradient = 0;
      for (std::size_t n = 0; n < 4; ++n) {
        double sum = 0;
        for (std::size_t c = 0; c < 3; ++c) sum += std::exp(out[n * 3 + c]);
        for (std::size_t c = 0; c < 3; ++c) {
          const double p = std::exp(out[n * 3 + c]) / sum - (c == static_cast<std::size_t>(classes[n]) ? 1 : 0);
          gradient += p / 4 * weight[c * 5 + o] * x.as<float>()[n * 6 + i];
        }
      }
      EXPECT_NEAR(after[o * 6 + i], before[o * 6 + i] - gradient, 1e-5);
    }
}

// -- state ----------------------------------------------------------------------------

/// A module with a parameter of 2 numbers and a buffer.
class with_a_buffer final : public test::scale {
 public:
  with_a_buffer() : scale(2) {}
  std::vector<nn::parameter> buffers() const override { return {{"mean", {2}}}; }
};
const registered<with_a_buffer> with_buffers("with_a_buffer");

/// An object with state.
class holder final : public remote_object {
 public:
  named_tensors state_dict() const override { return {{"numbers", tensor(shape(3))}}; }
  static void describe(methods<holder>&) {}
};
const registered<holder> holders("holder");

task<> move(trainer me, remote_module<nn::linear> layer) {
  const auto state = co_await layer.state_dict();
  EXPECT_EQ(state.at(0).first, "weight");
  EXPECT_EQ(state.at(0).second.shape(), shape(3, 6));
  auto other = co_await me.server(1).make<nn::linear>({.in_features = 6, .out_features = 3});
  co_await other.load_state_dict(state);
  const tensor x = batch_of(0, 0);
  const tensor here = co_await layer.infer(x);
  const tensor there = co_await other.infer(x);
  EXPECT_TRUE(std::ranges::equal(here.as<float>(), there.as<float>()));
  co_await other.to("cpu");
  EXPECT_ERROR(co_await other.to("cuda:0"),
               "to(\"cuda:0\") on server 1: this server computes on the processor; start it with --server-device cuda");
  auto wide = co_await me.server(1).make<nn::linear>({.in_features = 7, .out_features = 3});
  EXPECT_ERROR(co_await wide.load_state_dict(state),
               "linear: load_state_dict: 'weight' is [3, 6], the module's is [3, 7]");
  EXPECT_ERROR(co_await wide.infer(x),
               "linear.infer on server 1: linear: takes [n, 7] of float32 with n at least 1, not [4, 6] of float32");
}

TEST(HostedModules, GiveAndTakeTheirState) {
  test::made_cluster cluster({"--servers", "2"});
  cluster.run(1, move, cluster.server(0).make<nn::linear>({.in_features = 6, .out_features = 3}));
}

/// Formats parameters as `weight [3, 6], bias [3]`.
std::string description_of(const std::vector<nn::parameter>& all) {
  std::string text;
  for (const nn::parameter& one : all) text += (text.empty() ? "" : ", ") + one.name + " " + to_string(one.shape);
  return text;
}

/// `normed` has a buffer besides its parameter.
task<> ask_for_parameters(trainer me, remote_module<nn::linear> layer, remote_module<nn::embedding_bag> table) {
  const auto of_layer = co_await layer.parameters();
  EXPECT_EQ(description_of(of_layer), "weight [3, 6], bias [3]");
  const auto of_table = co_await table.parameters();
  EXPECT_EQ(description_of(of_table), "weight [100, 16]");
  auto normed = co_await me.server(1).make<with_a_buffer>();
  const auto of_normed = co_await normed.parameters();
  EXPECT_EQ(description_of(of_normed), "weight [2]");
  const auto state = co_await normed.state_dict();
  EXPECT_EQ(state.size(), 2U);
  auto object = co_await me.server(1).make<holder>();
  const auto of_object = co_await object.parameters();
  EXPECT_EQ(description_of(of_object), "");
  normed.release();
  EXPECT_THROW(std::ignore = normed.parameters(), error);
}

TEST(HostedModules, NameTheirParametersWithShapes) {
  test::made_cluster cluster({"--servers", "2"});
  const auto layer = cluster.server(0).make<nn::linear>({.in_features = 6, .out_features = 3});
  const auto table = cluster.server(1).make<nn::embedding_bag>({.num_embeddings = 100, .embedding_dim = 16});
  cluster.run(1, ask_for_parameters, layer, table);
}

}  // namespace
}  // namespace troupe::hosted_module_test
