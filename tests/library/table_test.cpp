// Tables of programs: their initial rows, their names in errors, and saved and loaded states.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/arguments.hpp"
#include "tests/library/error_of.hpp"
#include "troupe/troupe.hpp"

namespace troupe::table_test {
namespace {

using table = remote_module<nn::embedding_bag>;
using options = nn::embedding_bag::options;

const std::vector<std::int64_t> first_ids = {1, 2};
const std::vector<std::int64_t> offsets = {0, 1};

/// Returns the error of a program with these tables on one server.
template <class Function, class... More>
std::string run(const std::vector<options>& made, Function function, More... more) {
  test::arguments given({"--quiet"});
  return test::error_of([&] {
    cluster cluster(given.count(), given.values());
    std::vector<table> all;
    for (const options& one : made) all.push_back(cluster.server(0).make<nn::embedding_bag>(one));
    cluster.run(1, function, all, more...);
  });
}

std::vector<float> numbers_of(const tensor& x) { return {x.as<float>().begin(), x.as<float>().end()}; }

// -- initial rows --------------------------------------------------------------------------

task<> read(trainer /*me*/, std::vector<table> all, std::vector<std::vector<float>>* rows) {
  for (const table& one : all) {
    const named_tensors state = co_await one.state_dict();
    rows->push_back(numbers_of(state.at(0).second));
  }
}

/// Returns a table's initial rows; calls differ in `init` only.
std::vector<float> rows_of(const nn::row_init& init) {
  std::vector<std::vector<float>> rows;
  EXPECT_EQ(run({{.num_embeddings = 50, .embedding_dim = 3, .init = init}}, read, &rows), "no error");
  return rows.at(0);
}

TEST(TableInit, ScalesTheSameNormalNumbers) {
  const std::vector<float> standard = rows_of({});
  EXPECT_EQ(rows_of(nn::normal(1)), standard);
  std::vector<float> expected = standard;
  for (float& x : expected) x *= 0.05F;
  EXPECT_EQ(rows_of(nn::normal(0.05)), expected);
  for (const float x : rows_of(nn::normal(0))) EXPECT_EQ(x, 0);
}

TEST(TableInit, IsUniformBetweenItsBounds) {
  const std::vector<float> rows = rows_of(nn::uniform(-0.5, 0.25));
  const auto [least, most] = std::ranges::minmax_element(rows);
  EXPECT_GE(*least, -0.5F);
  EXPECT_LT(*least, -0.4F);
  EXPECT_LE(*most, 0.25F);
  EXPECT_GT(*most, 0.15F);
  for (const float x : rows_of(nn::zeros)) EXPECT_EQ(x, 0);
  for (const float x : rows_of(nn::uniform(0.5, 0.5))) EXPECT_EQ(x, 0.5F);
}

task<> make_there(trainer me, std::vector<table> /*none*/, std::vector<float>* rows) {
  auto made = co_await me.server(0).make<nn::embedding_bag>(
      {.num_embeddings = 5, .embedding_dim = 2, .init = nn::uniform(2, 3), .name = "late"});
  const named_tensors state = co_await made.state_dict();
  *rows = numbers_of(state.at(0).second);
}

TEST(TableInit, IsOfTablesThatAreMadeDuringTheRunToo) {
  std::vector<float> rows;
  EXPECT_EQ(run({}, make_there, &rows), "no error");
  ASSERT_EQ(rows.size(), 10U);
  for (const float x : rows) EXPECT_TRUE(x >= 2 && x <= 3) << x;
}

TEST(TableInit, IsRefusedByNameIfItCannotBe) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<std::vector<float>> none;
  const auto refused = [&](const nn::row_init& init) {
    return run({{.num_embeddings = 5, .embedding_dim = 2, .init = init}}, read, &none);
  };
  for (const double deviation : {-0.1, nan, inf, 3.5e37, 3e38, 1e39})
    EXPECT_FINDS(refused(nn::normal(deviation)), "embedding_bag: init normal(") << deviation;
  for (const auto& [least, most] : {std::pair{1.0, 0.5}, {nan, 1.0}, {0.0, nan}, {-inf, 0.0}, {0.0, inf}, {0.0, 1e39}})
    EXPECT_FINDS(refused(nn::uniform(least, most)), "embedding_bag: init uniform(") << least << " " << most;
}

TEST(TableInit, OfTheLargestDeviationIsFinite) {
  for (const float x : rows_of(nn::normal(3.4e37))) EXPECT_TRUE(std::isfinite(x)) << x;
}

TEST(TableOptions, OfNoKindAreRefused) {
  std::vector<std::vector<float>> none;
  const auto refused = [&](const options& made) { return run({made}, read, &none); };
  const options fits{.num_embeddings = 5, .embedding_dim = 2};
  options wrong = fits;
  wrong.init.is = static_cast<nn::row_init::kind>(7);
  EXPECT_EQ(refused(wrong), "embedding_bag: there is no row_init::kind 7; they are numbered from 0 to 1");
  wrong = fits;
  wrong.mode = static_cast<nn::pooling>(3);
  EXPECT_EQ(refused(wrong), "embedding_bag: there is no pooling 3; they are numbered from 0 to 2");
  wrong = fits;
  wrong.reduce = static_cast<nn::reduction>(2);
  EXPECT_EQ(refused(wrong), "embedding_bag: there is no reduction 2; they are numbered from 0 to 1");
}

// -- names -----------------------------------------------------------------------------------

TEST(TableNames, AreRefusedUnlessTheyAreTheTablesOwn) {
  std::vector<std::vector<float>> none;
  const auto refused = [&](const std::vector<const char*>& names) {
    std::vector<options> made;
    for (const char* name : names) made.push_back({.num_embeddings = 5, .embedding_dim = 2, .name = name});
    return run(made, read, &none);
  };
  EXPECT_EQ(refused({"users", "items_2", "a-b", "", nullptr}), "no error");
  EXPECT_EQ(refused({"users", "users"}), "embedding_bag: the name 'users' is another table's; choose another");
  const std::string long_name(101, 'a');
  for (const char* name : {"a b", "0", "_a", "a.b", "\xc3\xa4", long_name.c_str()})
    EXPECT_FINDS(refused({name}), "must be letters, digits, '_' and '-', a letter first, at most 100") << name;
}

task<> look_up(trainer me, std::vector<table> all, std::size_t which, std::vector<std::int64_t> ids,
               std::vector<std::int64_t> bags) {
  auto context = me.new_context();
  co_await all.at(which).forward(context, ids, bags);
}

TEST(TableNames, AreInErrorsAndElseThePlace) {
  const std::vector<options> made = {{.num_embeddings = 5, .embedding_dim = 2, .name = "users"},
                                     {.num_embeddings = 7, .embedding_dim = 2}};
  const auto error_of = [&](std::size_t which, std::vector<std::int64_t> ids, std::vector<std::int64_t> bags) {
    return run(made, look_up, which, ids, bags);
  };
  EXPECT_EQ(error_of(0, {1, 5}, {0, 1}),
            "trainer 0, step 1: embedding_bag.forward of users on server 0: indices: index 5 in sample 1: must be "
            "between 0 and 4, the table has 5 rows");
  EXPECT_EQ(error_of(1, {1, -1}, {0, 1}),
            "trainer 0, step 1: embedding_bag.forward of table 1 on server 0: indices: index -1 in sample 1: must be "
            "between 0 and 6, the table has 7 rows");
  EXPECT_EQ(
      error_of(0, {1, 2}, {0, 3}),
      "trainer 0, step 1: embedding_bag.forward of users on server 0: offsets: offset 3 of sample 1: offsets must "
      "start at 0, never descend, and not exceed the 2 indices");
}

task<> train_twice(trainer /*me*/, std::vector<table> all) {
  distributed_optimizer optimizer(sgd{.lr = 0.1}, all.at(0));
  optimizer.add(sgd{.lr = 0.1}, all);
  co_return;
}

task<> train_nothing(trainer /*me*/, std::vector<table> /*none*/) {
  const table nothing;
  const distributed_optimizer optimizer(sgd{.lr = 0.1}, nothing);
  co_return;
}

TEST(TableNames, AreInTheErrorOfAMemberThatIsThereTwice) {
  EXPECT_EQ(run({{.num_embeddings = 5, .embedding_dim = 2, .name = "users"}}, train_twice),
            "trainer 0, step 0: distributed_optimizer: embedding_bag of users on server 0 is there twice; name each "
            "member once");
  EXPECT_EQ(run({}, train_nothing), "trainer 0, step 0: distributed_optimizer: a handle of no module");
}

// -- states ----------------------------------------------------------------------------------

std::vector<std::string> names_of(const named_tensors& state) {
  std::vector<std::string> names;
  for (const auto& [name, numbers] : state) names.push_back(name);
  return names;
}

task<> step(trainer me, const distributed_optimizer& optimizer, const table& rows) {
  auto context = me.new_context();
  const tensor found = co_await rows.forward(context, first_ids, offsets);
  const tensor loss = sum(context, found);
  co_await context.backward(loss);
  co_await optimizer.step(context);
}

/// Trains a table, loads its state into the others, and continues to train one of these with the same optimizer.
task<> hand_over(trainer me, std::vector<table> all) {
  const distributed_optimizer optimizer(adam{.lr = 0.1}, all.at(0));
  co_await step(me, optimizer, all.at(0));
  const named_tensors weights = co_await all.at(0).state_dict();
  EXPECT_EQ(names_of(weights), std::vector<std::string>{"weight"});
  EXPECT_EQ(weights.at(0).second.shape(), shape(5, 2));
  co_await all.at(1).load_state_dict(weights);  // a fresh table
  const named_tensors there = co_await all.at(1).state_dict();
  EXPECT_EQ(numbers_of(there.at(0).second), numbers_of(weights.at(0).second));

  const named_tensors whole = co_await all.at(0).state_dict({.optimizer = true});
  EXPECT_EQ(names_of(whole), (std::vector<std::string>{"weight", "state.0", "state.1", "optimizer.adam"}));
  try {
    co_await all.at(1).load_state_dict(whole);
    ADD_FAILURE() << "it has no optimizer yet";
  } catch (const error& e) {
    EXPECT_FINDS(e.what(),
                 "table 1 (embedding_bag [5, 2]) has no entry 'state.0': its optimizer, sgd, "
                 "has no such state; make the optimizer whose state it is first, or load the "
                 "weight alone");
  }
  const distributed_optimizer same(adam{.lr = 0.1}, all.at(2));
  co_await all.at(2).load_state_dict(whole);
  const named_tensors copied = co_await all.at(2).state_dict({.optimizer = true});
  for (std::size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(numbers_of(copied.at(i).second), numbers_of(whole.at(i).second)) << whole.at(i).first;
}

TEST(TableState, GoesIntoOtherTables) {
  const std::vector<options> made = {{.num_embeddings = 5, .embedding_dim = 2, .mode = nn::pooling::sum},
                                     {.num_embeddings = 5, .embedding_dim = 2},
                                     {.num_embeddings = 5, .embedding_dim = 2}};
  EXPECT_EQ(run(made, hand_over), "no error");
}

/// Returns the error of a load, for `EXPECT`.
task<std::string> error_of_load(table into, named_tensors state) {
  std::string what = "no error";
  try {
    co_await into.load_state_dict(state);
  } catch (const error& e) {
    what = e.what();
  }
  co_return what;
}

/// Loads the state of the first table into each table.
task<> give_to_all(trainer /*me*/, std::vector<table> all, std::vector<std::string> optimizers,
                   std::vector<std::string>* errors) {
  std::vector<distributed_optimizer> made;
  for (std::size_t i = 0; i < all.size(); ++i) made.emplace_back(optimizer_choice{optimizers[i], 0.1}, all[i]);
  const named_tensors whole = co_await all[0].state_dict({.optimizer = true});
  for (std::size_t i = 1; i < all.size(); ++i) {
    const std::string what = co_await error_of_load(all[i], whole);
    errors->push_back(what);
  }
  const named_tensors unnamed(whole.begin(), whole.end() - 1);  // as written by 0.1.0
  const std::string what = co_await error_of_load(all[1], unnamed);
  errors->push_back(what);
}

std::vector<std::string> errors_of_giving(const std::vector<std::string>& optimizers) {
  std::vector<std::string> errors;
  const std::vector<options> made(optimizers.size(), {.num_embeddings = 5, .embedding_dim = 2});
  EXPECT_EQ(run(made, give_to_all, optimizers, &errors), "no error");
  EXPECT_EQ(errors.size(), optimizers.size());
  return errors;
}

TEST(TableState, OfAnotherOptimizerIsRefused) {
  const std::string momentum = "sgd:momentum=0.9";
  std::vector<std::string> errors = errors_of_giving({"adagrad", momentum, "lazy-sgd:momentum=0.9", "adagrad"});
  for (std::size_t i : {0, 1})
    EXPECT_FINDS(errors.at(i),
                 "the state is of the optimizer adagrad, the table's is sgd; make the optimizer whose "
                 "state it is, or load the weight alone");
  EXPECT_EQ(errors.at(2), "no error");
  EXPECT_EQ(errors.at(3), "no error") << "an old state does not say whose it is";
  errors = errors_of_giving({momentum, "adagrad", "lazy-sgd:momentum=0.5"});
  EXPECT_FINDS(errors.at(0), "the state is of the optimizer sgd, the table's is adagrad");
  EXPECT_EQ(errors.at(1), "no error") << "the same numbers, of touched rows";
}

task<> load(trainer /*me*/, std::vector<table> all, const named_tensors* state) {
  const named_tensors before = co_await all.at(0).state_dict();
  std::string what = "no error";
  try {
    co_await all.at(0).load_state_dict(*state);
  } catch (const error& e) {
    what = e.what();
  }
  const named_tensors after = co_await all.at(0).state_dict();
  EXPECT_EQ(numbers_of(after.at(0).second), numbers_of(before.at(0).second)) << "nothing is lost";
  throw error(error_kind::run, what);
}

TEST(TableState, OfAnotherTableIsRefusedAndChangesNothing) {
  const auto refused = [](const named_tensors& state) {
    return run({{.num_embeddings = 5, .embedding_dim = 2, .name = "users"}}, load, &state);
  };
  tensor fits({5, 2});
  std::ranges::fill(fits.as<float>(), 1.0F);
  const auto expect = [&](const named_tensors& state, const std::string& text) { EXPECT_FINDS(refused(state), text); };
  expect({{"weight", fits}, {"bias", fits}}, "users (embedding_bag [5, 2]) has no entry 'bias'");
  expect({{"weight", fits}, {"weight", fits}}, "users (embedding_bag [5, 2]): entry 'weight' is there twice");
  expect({{"weight", tensor({2, 5})}}, "entry 'weight' is [2, 5] of float32, expected [5, 2] of float32");
  expect({{"weight", tensor({5, 2, 1})}}, "'weight' is [5, 2, 1] of float32; a table has matrices of float32");
  expect({{"weight", tensor({5, 2}, dtype::i64)}}, "'weight' is [5, 2] of int64");
  expect({}, "users (embedding_bag [5, 2]): entry 'weight' is missing");
}

}  // namespace
}  // namespace troupe::table_test
