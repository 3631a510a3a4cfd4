// A `future::then` callback that throws when its result arrives ends the run; the error names the actor that registered
// it.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/library/made_cluster.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::callbacks_test {
namespace {

/// Keeps what callbacks threw.
class keeping_executor final : public executor {
 public:
  void post(std::shared_ptr<runnable> /*what*/) override {}
  void callback_threw(const std::exception_ptr& what) override { thrown.push_back(what); }

  std::vector<std::exception_ptr> thrown;
};

TEST(Callbacks, WhatTheyThrowGoesToTheirExecutor) {
  const auto on = std::make_shared<keeping_executor>();
  {
    promise<int> kept, dropped;
    const executor::scope here(*on);
    for (const promise<int>* one : {&kept, &dropped}) one->get_future().then([](future<int> f) { (void)f.get(); });
    kept.fail(error(error_kind::run, "wrong"));
    EXPECT_EQ(on->thrown.size(), 1u);
  }
  EXPECT_EQ(on->thrown.size(), 2u) << "its destructor has told it";
}

TEST(Callbacks, WhatTheyThrowOutsideOfARunComesOutOfSetButNotOfTheDestructor) {
  promise<int> kept;
  kept.get_future().then([](future<int> /*f*/) { throw error(error_kind::input, "not this"); });
  EXPECT_THROW(kept.set(1), error);
  bool was_called = false;
  {
    promise<int> dropped;
    dropped.get_future().then([&](future<int> f) {
      was_called = true;
      (void)f.get();
    });
  }
  EXPECT_TRUE(was_called);
}

/// An object whose methods use callbacks.
class asking final : public remote_object {
 public:
  void refuse() { throw error(error_kind::input, "no"); }
  void throw_in_callback() {
    promise<> later;
    later.get_future().then([](future<> /*f*/) { throw error(error_kind::input, "not this"); });
    later.set();
  }
  static void describe(methods<asking>& all) {
    all.add("refuse", &asking::refuse);
    all.add("throw_in_callback", &asking::throw_in_callback);
  }
  named_tensors state_dict() const override { return {}; }
  void load_state_dict(const named_tensors& /*state*/) override {}
};
const registered<asking> askings("callbacks_test.asking");

using table = remote_module<nn::embedding_bag>;
using object = remote_module<asking>;

const auto get = [](auto f) { (void)f.get(); };

/// Expects that a run of two trainers fails with this text and exit code 1.
template <class Function>
void expect_failure(const std::string& who, const std::string& text, Function function) {
  try {
    test::made_cluster cluster({"--quiet"});
    auto rows = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 4, .embedding_dim = 2});
    auto one = cluster.server(0).make<asking>();
    cluster.run(2, function, rows, one);
    ADD_FAILURE() << "no error; expected: " << text;
  } catch (const error& e) {
    const std::string said = e.what();
    EXPECT_EQ(e.kind(), error_kind::run) << said;
    EXPECT_TRUE(said.starts_with(who)) << said;
    EXPECT_NE(said.find("a callback given to then() threw: " + text), std::string::npos) << said;
  }
}

task<> receive(trainer me, table /*rows*/, object /*one*/) {
  for (int i = 0; i < 3; ++i)
    if (me.rank() == 1) me.group().recv(0).then(get);
  co_return;
}
task<> meet_alone(trainer me, table /*rows*/, object /*one*/) {
  if (me.rank() == 1) me.group().barrier().then(get);
  co_return;
}
task<> sum_alone(trainer me, table /*rows*/, object /*one*/) {
  if (me.rank() == 1) me.group().all_reduce(tensor(shape(1))).then(get);
  co_return;
}

TEST(Callbacks, OfWhatOtherTrainersNeverSendEndTheRun) {
  expect_failure("trainer 1, step ", "", receive);
  expect_failure("trainer 1, step ", "", meet_alone);
  expect_failure("trainer 1, step ", "", sum_alone);
}

task<> move(trainer me, table rows, object /*one*/) {
  if (me.rank() == 1) rows.to("cuda:7").then(get);
  co_return;
}
task<> load(trainer me, table rows, object /*one*/) {
  const named_tensors wrong = {{"wait", tensor(shape(1))}};
  if (me.rank() == 1) rows.load_state_dict(wrong).then(get);
  co_return;
}

TEST(Callbacks, OfWhatServersAnswerEndTheRun) {
  expect_failure("trainer 1, step ", "to(\"cuda:7\") on server 0: a table stays", move);
  expect_failure("trainer 1, step ", "", load);
}

task<> refuse(trainer me, table /*rows*/, object one) {
  if (me.rank() == 1) one.call(&asking::refuse).then(get);
  try {
    co_await one.call(&asking::refuse);  // answered after the call above
  } catch (const error&) {
  }
}

TEST(Callbacks, OfMethodsThatThrowEndTheRun) {
  expect_failure("trainer 1, step ", "callbacks_test.asking.refuse on server 0: no", refuse);
}

task<> throw_there(trainer /*me*/, table /*rows*/, object one) { co_await one.call(&asking::throw_in_callback); }

TEST(Callbacks, OfAnObjectEndTheRun) { expect_failure("server 0, step ", "not this", throw_there); }

task<> rest(trainer /*me*/, table /*rows*/) { co_return; }
task<> load_wrong(client /*me*/, table rows) {
  const named_tensors wrong = {{"wait", tensor(shape(1))}};
  rows.load_state_dict(wrong).then(get);
  co_return;
}

TEST(Callbacks, OfAClientEndTheRun) {
  test::made_cluster cluster({"--quiet"});
  auto rows = cluster.server(0).make<nn::embedding_bag>({.num_embeddings = 4, .embedding_dim = 2});
  cluster.client(load_wrong, rows);
  const std::string told = test::error_of([&] { cluster.run(1, rest, rows); });
  EXPECT_TRUE(told.starts_with("client 0: a callback given to then() threw: ")) << told;
}

}  // namespace
}  // namespace troupe::callbacks_test
