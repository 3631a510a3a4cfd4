// Optimizer steps, backward passes and pipeline steps that are not awaited: each error says what to do.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::awaited_steps_test {
namespace {

const std::vector<std::int64_t> classes = {0, 1};
const std::vector<std::int64_t> offsets = {0, 1};

tensor batch() { return tensor::of<float>({2, 4}, std::vector<float>(8, 0.5F)); }

/// Returns the kind and the text of a run's error.
template <class Function, class... More>
std::pair<error_kind, std::string> thrown_by(std::uint32_t trainers, Function function, More... more) {
  try {
    test::run_with({"--quiet"}, trainers, function, more...);
  } catch (const error& e) {
    return {e.kind(), e.what()};
  }
  return {error_kind::input, "no error"};
}

template <class Function, class... More>
void expect_error(const std::string& expected, std::uint32_t trainers, Function function, More... more) {
  const auto [kind, text] = thrown_by(trainers, function, more...);
  EXPECT_EQ(kind, error_kind::run) << "its exit code is 1";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

enum class way : std::uint8_t { callback, dropped, kept };

/// Starts a step without awaiting it.
void take(const distributed_optimizer& optimizer, context& with, way how, std::vector<future<>>& all) {
  auto coming = optimizer.step(with);
  if (how == way::callback) std::move(coming).then([](future<> /*over*/) {});
  if (how == way::kept) all.push_back(std::move(coming));
}

task<> step_twice(trainer me, way how) {
  std::vector<future<>> all;
  auto model = me.data_parallel(nn::linear(4, 2));
  const distributed_optimizer optimizer(adagrad{.lr = 0.05}, model);
  for (int step = 0; step < 2; ++step) {
    auto context = me.new_context();
    take(optimizer, context, how, all);
  }
  co_return;
}

TEST(UnawaitedSteps, AreErrorsAtTheNextStep) {
  for (const way how : {way::callback, way::dropped, way::kept})
    for (const std::uint32_t trainers : {1U, 2U})
      expect_error("an optimizer step after an optimizer step that was not awaited; co_await optimizer.step(context)",
                   trainers, step_twice, how);
}

task<> step_and_apply(trainer me, way how, bool evaluates) {
  std::vector<future<>> all;
  auto model = me.data_parallel(nn::linear(4, 2), {.name = "tower"});
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  auto context = me.new_context();
  co_await context.backward(nn::cross_entropy(context, model(context, batch()), classes));
  take(optimizer, context, how, all);
  auto next = evaluates ? me.no_grad() : me.new_context();
  model(next, batch());
}

TEST(UnawaitedSteps, AreErrorsAtAPassOfTheReplica) {
  for (const way how : {way::callback, way::dropped, way::kept})
    for (const bool evaluates : {false, true})
      expect_error("tower: a pass after an optimizer step that was not awaited; co_await optimizer.step(context)", 2,
                   step_and_apply, how, evaluates);
}

task<> step_and_return(trainer me, way how) {
  std::vector<future<>> all;
  auto model = me.data_parallel(nn::linear(4, 2));
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  auto context = me.new_context();
  take(optimizer, context, how, all);
  co_await me.group().barrier();
}

TEST(UnawaitedSteps, AreErrorsAtTheEnd) {
  for (const way how : {way::callback, way::dropped})
    expect_error("the trainer function ends after an optimizer step that was not awaited", 2, step_and_return, how);
}

task<> step_and_look(trainer me, bool loads) {
  auto model = me.data_parallel(nn::linear(4, 2));
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  const named_tensors state = model.state_dict();
  auto context = me.new_context();
  auto coming = optimizer.step(context);
  if (!coming.is_ready()) loads ? model.load_state_dict(state) : void(model.state_dict());
  co_await std::move(coming);
}

TEST(UnawaitedSteps, KeepTheNumbersToThemselvesMeanwhile) {
  expect_error("linear: state_dict while an optimizer step is under way; co_await it first", 2, step_and_look, false);
  expect_error("linear: load_state_dict while an optimizer step is under way", 2, step_and_look, true);
}

task<> step_of_rows(trainer me, remote_module<nn::embedding_bag> rows, remote_module<nn::linear> layer, way how) {
  std::vector<future<>> all;
  const distributed_optimizer optimizer(adagrad{.lr = 0.05}, rows, layer);
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    const tensor found = co_await rows.forward(context, offsets, offsets);
    const tensor scores = co_await layer.forward(context, found);
    co_await context.backward(nn::cross_entropy(context, scores, classes));
    take(optimizer, context, how, all);
  }
}

TEST(UnawaitedSteps, OfServersAloneAreErrorsToo) {
  for (const way how : {way::callback, way::dropped, way::kept}) {
    test::made_cluster cluster({"--quiet"});
    const auto rows = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 10, .embedding_dim = 4});
    const auto layer = cluster.server(0).make<nn::linear>({.in_features = 4, .out_features = 2});
    EXPECT_FINDS(test::error_of([&] { cluster.run(2, step_of_rows, rows, layer, how); }),
                 "step 2: an optimizer step after an optimizer step that was not awaited");
  }
}

/// Operations started during a step and awaited after it give the same results as always.
task<> overlap(trainer me, remote_module<nn::embedding_bag> rows) {
  auto model = me.data_parallel(nn::linear(4, 2));
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, rows, model);
  auto context = me.new_context();
  auto found = rows.forward(context, offsets, offsets);
  for (int step = 0; step < 3; ++step) {
    const tensor here = co_await std::move(found);
    co_await context.backward(nn::cross_entropy(context, model(context, here), classes));
    auto coming = optimizer.step(context);
    context = me.new_context();
    found = rows.forward(context, offsets, offsets);
    co_await std::move(coming);
  }
}

TEST(AwaitedSteps, MayHaveTheNextLookupUnderWay) {
  test::made_cluster cluster({"--quiet"});
  const auto rows = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 10, .embedding_dim = 4});
  EXPECT_EQ(cluster.run(2, overlap, rows).steps, 3U);
}

// -- backward passes -----------------------------------------------------------------------

task<> go_back(trainer me, bool twice) {
  auto model = me.data_parallel(nn::linear(4, 2));
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  auto context = me.new_context();
  const tensor loss = nn::cross_entropy(context, model(context, batch()), classes);
  static_cast<void>(context.backward(loss));
  if (twice) co_await context.backward(nn::cross_entropy(context, model(context, batch()), classes));
  co_await optimizer.step(context);
}

TEST(UnawaitedWaysBack, AreErrors) {
  expect_error("optimizer step after a backward that was not awaited; co_await context.backward(...)", 1, go_back,
               false);
  expect_error("a second backward after a backward that was not awaited", 1, go_back, true);
}

// -- pipelines -----------------------------------------------------------------------------

task<> step_in_stages(trainer me, bool awaits_batch, pipeline_schedule schedule) {
  auto model = me.pipeline({nn::sequential(nn::linear(4, 3)), nn::sequential(nn::linear(3, 2))},
                           {.schedule = schedule, .micro_batches = 1});
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, model);
  for (int step = 0; step < 2; ++step) {
    auto context = me.new_context();
    auto going = model.step(context, batch(), classes, nn::cross_entropy);
    if (awaits_batch) co_await std::move(going);
    auto coming = optimizer.step(context);
    if (!awaits_batch) co_await std::move(coming);
  }
}

TEST(UnawaitedSteps, OfPipelinesAreErrors) {
  for (const pipeline_schedule schedule : {pipeline_schedule::one_f_one_b, pipeline_schedule::pipedream}) {
    expect_error("an optimizer step after a pipeline's step that was not awaited; co_await pipeline.step(...)", 2,
                 step_in_stages, false, schedule);
    expect_error("after an optimizer step that was not awaited; co_await optimizer.step(context)", 2, step_in_stages,
                 true, schedule);
  }
}

/// A pipeline with overlapping steps, beside a loss in a context of its own.
task<> mix(trainer me) {
  auto model = me.pipeline({nn::sequential(nn::linear(4, 3)), nn::sequential(nn::linear(3, 2))},
                           {.schedule = pipeline_schedule::pipedream});
  auto other = me.data_parallel(nn::linear(4, 2));
  const distributed_optimizer optimizer(sgd{.lr = 0.05}, model, other);
  for (int step = 0; step < 3; ++step) {
    auto context = me.new_context();
    co_await context.backward(nn::cross_entropy(context, other(context, batch()), classes));
    co_await model.step(context, batch(), classes, nn::cross_entropy);
    co_await optimizer.step(context);
  }
}

TEST(OverlappingPipelines, HaveContextsOfTheirOwn) {
  expect_error("pipeline: a step with pipedream in a context that has gone back from another loss", 2, mix);
}

}  // namespace
}  // namespace troupe::awaited_steps_test
