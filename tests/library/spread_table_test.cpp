// Tables that are spread over servers: the same states and rows as a table on one server, bit by bit.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/mapped.hpp"
#include "tests/expect_finds.hpp"
#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "troupe/troupe.hpp"

namespace troupe::spread_table_test {
namespace {

using table = remote_module<nn::embedding_bag>;
using options = nn::embedding_bag::options;

constexpr std::size_t dim = 5;
constexpr options summed{.num_embeddings = 7, .embedding_dim = dim, .mode = nn::pooling::sum};

/// How a table is spread: seven rows and five columns give shards of unequal sizes.
struct layout {
  int servers = 1;
  nn::table_split split = nn::table_split::rows;
};
const std::vector<layout> layouts = {{1}, {2}, {3}, {2, nn::table_split::columns}, {3, nn::table_split::columns}};

std::string description_of(const layout& where) {
  return std::to_string(where.servers) + (where.split == nn::table_split::rows ? " by rows" : " by columns");
}

/// Runs `function` on a table with this layout.
template <class Function, class... More>
void run(const layout& where, options made, std::uint32_t trainers, Function function, More... more) {
  test::made_cluster cluster({"--quiet", "--servers", std::to_string(where.servers)});
  made.split = where.split;
  const auto rows = cluster.make<nn::embedding_bag>(made);
  cluster.run(trainers, function, rows, more...);
}

std::vector<float> numbers_of(const tensor& x) { return {x.as<float>().begin(), x.as<float>().end()}; }

void expect_same(const named_tensors& state, const named_tensors& expected) {
  ASSERT_EQ(state.size(), expected.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(state[i].first, expected[i].first);
    EXPECT_EQ(state[i].second.shape(), expected[i].second.shape()) << state[i].first;
    EXPECT_EQ(numbers_of(state[i].second), numbers_of(expected[i].second)) << state[i].first;
  }
}

// -- states --------------------------------------------------------------------------------

/// Takes optimizer step `number`, and returns the loss before it.
task<double> step(trainer me, const distributed_optimizer& optimizer, const table& rows, std::int64_t number) {
  auto context = me.new_context();
  const std::vector<std::int64_t> ids = {number % 7, (2 * number + me.rank()) % 7, 3, 3, 6};
  const std::vector<std::int64_t> offsets = {0, 2};
  const std::vector<std::int64_t> classes = {1, 4};
  const tensor found = co_await rows.forward(context, ids, offsets);
  const tensor loss = nn::cross_entropy(context, found, classes);
  const double value = loss.item();
  co_await context.backward(loss);
  co_await optimizer.step(context);
  co_return value;
}

/// What trainer 0 records.
struct findings {
  named_tensors halfway;       ///< includes the optimizer's state
  std::vector<double> losses;  ///< of the steps after that
  named_tensors last;
};

/// Takes steps 3 to 5 from the current state.
task<> train_on(trainer me, const distributed_optimizer& optimizer, const table& rows, findings* found) {
  const named_tensors halfway = co_await rows.state_dict({.optimizer = true});
  std::vector<double> losses;
  for (std::int64_t number = 3; number < 6; ++number) {
    const double loss = co_await step(me, optimizer, rows, number);
    losses.push_back(loss);
  }
  const named_tensors last = co_await rows.state_dict();
  if (me.rank() == 0) *found = {halfway, losses, last};
}

task<> train(trainer me, table rows, optimizer_choice how, findings* found) {
  const distributed_optimizer optimizer(how, rows);
  for (std::int64_t number = 0; number < 3; ++number) co_await step(me, optimizer, rows, number);
  co_await train_on(me, optimizer, rows, found);
}

findings trained(const layout& where, const char* optimizer, std::uint32_t trainers) {
  findings found;
  run(where, summed, trainers, train, optimizer_choice{.name = optimizer, .lr = 0.1}, &found);
  return found;
}

TEST(SpreadTables, HaveTheStateOfATableOnOneServer) {
  for (const char* optimizer : {"sgd", "adagrad", "adam", "rowwise-adagrad"}) {
    const findings expected = trained({}, optimizer, 2);
    ASSERT_EQ(expected.losses.size(), 3U);
    EXPECT_EQ(expected.last.at(0).second.shape(), shape(7, dim));
    EXPECT_NE(numbers_of(expected.last.at(0).second), numbers_of(expected.halfway.at(0).second));
    const bool needs_whole_rows = std::string(optimizer) == "rowwise-adagrad";
    if (needs_whole_rows) {
      EXPECT_EQ(expected.halfway.at(1).second.shape(), shape(7, 1));
    }
    for (const layout& where : layouts) {
      if (needs_whole_rows && where.split == nn::table_split::columns) continue;
      SCOPED_TRACE(optimizer + (", servers: " + description_of(where)));
      const findings now = trained(where, optimizer, 2);
      expect_same(now.halfway, expected.halfway);
      EXPECT_EQ(now.losses, expected.losses);
      expect_same(now.last, expected.last);
    }
  }
}

task<> load_and_train_on(trainer me, table rows, optimizer_choice how, const named_tensors* state, findings* found) {
  const distributed_optimizer optimizer(how, rows);
  co_await rows.load_state_dict(*state);
  co_await train_on(me, optimizer, rows, found);
}

// Adagrad's steps do not depend on the number of earlier ones.
TEST(SpreadTables, GoOnFromTheStateOfAnyOther) {
  options zeros = summed;
  zeros.init = nn::zeros;
  for (const layout& first : layouts) {
    const findings expected = trained(first, "adagrad", 1);
    for (const layout& second : layouts) {
      SCOPED_TRACE("from " + description_of(first) + " to " + description_of(second));
      findings found;
      run(second, zeros, 1, load_and_train_on, optimizer_choice{.name = "adagrad", .lr = 0.1}, &expected.halfway,
          &found);
      expect_same(found.halfway, expected.halfway);
      EXPECT_EQ(found.losses, expected.losses);
      expect_same(found.last, expected.last);
    }
  }
}

/// Returns the error of a load.
task<std::string> error_of_load(table into, named_tensors state) {
  std::string what = "no error";
  try {
    co_await into.load_state_dict(state);
  } catch (const error& e) {
    what = e.what();
  }
  co_return what;
}

task<> load_misfits(trainer /*me*/, table rows, const std::vector<named_tensors>* states,
                    std::vector<std::string>* errors) {
  const named_tensors before = co_await rows.state_dict();
  for (const named_tensors& one : *states) {
    const std::string what = co_await error_of_load(rows, one);
    errors->push_back(what);
  }
  const named_tensors after = co_await rows.state_dict();
  expect_same(after, before);
}

TEST(SpreadTables, RefuseStatesThatDoNotFitAndChangeNothing) {
  tensor fits({7, dim});
  std::ranges::fill(fits.as<float>(), 1.0F);
  const std::vector<std::pair<named_tensors, std::string>> cases = {
      {{{"weight", tensor({dim, 7})}}, "entry 'weight' is [5, 7] of float32, expected [7, 5]"},
      {{{"weight", tensor({7, 1})}}, "entry 'weight' is [7, 1] of float32, expected [7, 5]"},
      {{{"weight", fits}, {"state.0", tensor({3, dim})}}, "entry 'state.0' is [3, 5] of float32, expected [7, 5]"},
      {{{"weight", fits}, {"state.0", fits}}, "table 0 (embedding_bag [7, 5]) has no entry 'state.0'"},
      {{{"weight", fits}, {"bias", fits}}, "table 0 (embedding_bag [7, 5]) has no entry 'bias'"},
      {{{"weight", fits}, {"weight", fits}}, "entry 'weight' is there twice"},
      {{{"weight", tensor({7, dim, 1})}}, "'weight' is [7, 5, 1] of float32; a table has matrices of float32"},
      {{{"weight", tensor({7, dim}, dtype::i64)}}, "'weight' is [7, 5] of int64; a table has matrices of float32"},
      {{}, "entry 'weight' is missing"}};
  const std::vector<named_tensors> states = mapped(cases, [](const auto& one) { return one.first; });
  for (const layout& where : layouts) {
    if (where.servers == 1) continue;
    SCOPED_TRACE(description_of(where));
    std::vector<std::string> errors;
    run(where, summed, 1, load_misfits, &states, &errors);
    ASSERT_EQ(errors.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_FINDS(errors[i], cases[i].second);
    EXPECT_FINDS(errors[0],
                 "embedding_bag.load_state_dict of table 0 on " + std::to_string(where.servers) + " servers: ");
  }
}

// -- rows ----------------------------------------------------------------------------------

const std::vector<std::int64_t> bag_ids = {6, 0, 3, 3, 5, 1};
const std::vector<std::int64_t> bag_offsets = {0, 1, 1, 4};  // the second bag is empty

/// The bags' pooled rows, one after the other; then those of a lookup without ids.
struct pooled {
  named_tensors state;
  std::vector<float> bags;
  std::vector<float> nothing;
};

task<> look_up(trainer /*me*/, table rows, pooled* found) {
  found->state = co_await rows.state_dict();
  const tensor bags = co_await rows.rows(bag_ids, bag_offsets);
  EXPECT_EQ(bags.shape(), shape(4, dim));
  found->bags = numbers_of(bags);
  const std::vector<std::int64_t> none;
  const std::vector<std::int64_t> one_bag = {0};
  const tensor empty = co_await rows.rows(none, one_bag);
  found->nothing = numbers_of(empty);
}

/// The same from the state's rows, in double.
std::vector<double> pooled_by_formula(const tensor& weight, nn::pooling mode) {
  std::vector<double> all;
  for (std::size_t bag = 0; bag < bag_offsets.size(); ++bag)
    for (std::size_t column = 0; column < dim; ++column) {
      std::vector<double> numbers;
      const std::int64_t end = bag + 1 < bag_offsets.size() ? bag_offsets[bag + 1] : std::ssize(bag_ids);
      for (std::int64_t i = bag_offsets[bag]; i < end; ++i)
        numbers.push_back(
            weight.as<float>()[static_cast<std::size_t>(bag_ids[static_cast<std::size_t>(i)]) * dim + column]);
      double sum = 0;
      for (const double x : numbers) sum += x;
      if (numbers.empty())
        all.push_back(0);
      else if (mode == nn::pooling::max)
        all.push_back(std::ranges::max(numbers));
      else
        all.push_back(mode == nn::pooling::mean ? sum / static_cast<double>(numbers.size()) : sum);
    }
  return all;
}

TEST(SpreadTables, HaveTheRowsOfATableOnOneServer) {
  for (const auto mode : {nn::pooling::sum, nn::pooling::mean, nn::pooling::max}) {
    options made = summed;
    made.mode = mode;
    pooled first;
    for (const layout& where : layouts) {
      SCOPED_TRACE(description_of(where) + ", mode " + std::to_string(static_cast<int>(mode)));
      pooled found;
      run(where, made, 1, look_up, &found);
      if (where.servers == 1) first = found;
      EXPECT_EQ(found.bags, first.bags);
      EXPECT_EQ(found.nothing, std::vector<float>(dim));
      const std::vector<double> expected = pooled_by_formula(found.state.at(0).second, mode);
      ASSERT_EQ(found.bags.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found.bags[i], expected[i], 1e-5) << i;
    }
  }
}

task<> look_up_too_far(trainer /*me*/, table rows) {
  const std::vector<std::int64_t> wrong = {2, 7};
  const std::vector<std::int64_t> one_bag = {0};
  co_await rows.rows(wrong, one_bag);
}

TEST(SpreadTables, RefuseRowsThatTheyDoNotHave) {
  EXPECT_FINDS(test::error_of([] { run({3}, summed, 1, look_up_too_far); }),
               "embedding_bag.rows of table 0 on 3 servers: indices: index 7 in sample 0: must be between 0 and 6");
}

// -- clients and threads -------------------------------------------------------------------

/// What a client or a thread outside of the trainers sees.
struct seen {
  named_tensors state;
  std::vector<float> bags;
};

task<> ask_as_client(client /*me*/, table rows, seen* found) {
  const named_tensors state = co_await rows.state_dict();
  co_await rows.load_state_dict(state);
  const tensor bags = co_await rows.rows(bag_ids, bag_offsets);
  *found = {state, numbers_of(bags)};
}

task<> ask_by_thread(trainer /*me*/, table rows, seen* found) {
  promise<> done;
  auto coming = done.get_future();
  std::string failed;
  std::thread other([&] {
    failed = test::error_of([&] {
      found->state = rows.state_dict().get();
      rows.load_state_dict(found->state).get();
      const tensor bags = rows.rows(bag_ids, bag_offsets).get();
      found->bags = numbers_of(bags);
    });
    done.set();
  });
  co_await std::move(coming);
  other.join();
  EXPECT_EQ(failed, "no error");
}

TEST(SpreadTables, AnswerClientsAndThreads) {
  pooled expected;
  run({}, summed, 1, look_up, &expected);
  for (const layout& where : layouts) {
    SCOPED_TRACE(description_of(where));
    test::made_cluster cluster({"--quiet", "--servers", std::to_string(where.servers)});
    options made = summed;
    made.split = where.split;
    const auto rows = cluster.make<nn::embedding_bag>(made);
    seen by_client;
    seen by_thread;
    cluster.client(ask_as_client, rows, &by_client);
    cluster.run(1, ask_by_thread, rows, &by_thread);
    for (const seen& one : {by_client, by_thread}) {
      expect_same(one.state, expected.state);
      EXPECT_EQ(one.bags, expected.bags);
    }
  }
}

// -- the other calls -----------------------------------------------------------------------

/// Keeps a handle.
class keeper final : public remote_object {
 public:
  static void describe(methods<keeper>& m) { m.add("keep", &keeper::keep); }
  void keep(table rows) { rows_ = std::move(rows); }

 private:
  table rows_;
};
const registered<keeper> keepers("spread_table_test.keeper");

task<> call_others(trainer me, table rows) {
  const auto parameters = co_await rows.parameters();
  EXPECT_EQ(parameters.size(), 1U);
  EXPECT_EQ(parameters.at(0).name, "weight");
  EXPECT_EQ(parameters.at(0).shape, shape(7, dim));
  EXPECT_ERROR(co_await rows.to("cpu"), "to(\"cpu\") on server 0: a table stays where --server-device has put it");
  const auto object = co_await me.server(0).make<keeper>();
  EXPECT_ERROR(co_await object.call(&keeper::keep, rows),
               "embedding_bag of table 0 on 2 servers: no message has a handle of a table that is spread over servers; "
               "make it on one server, or give the handle to trainers and clients as an argument of their functions");
}

TEST(SpreadTables, NameTheirParametersAndRefuseTheRest) {
  for (const auto split : {nn::table_split::rows, nn::table_split::columns}) run({2, split}, summed, 1, call_others);
}

}  // namespace
}  // namespace troupe::spread_table_test
