// A program's own objects on servers: calls, errors, handles in calls, deadlines.

#include "troupe/remote_object.hpp"
#include "tests/expect_finds.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/library/error_of.hpp"
#include "tests/library/made_cluster.hpp"
#include "troupe/troupe.hpp"

namespace troupe::remote_object_test {

/// Adds up. May hold another counter, or itself.
class counter final : public remote_object {
 public:
  struct options {
    std::int64_t from = 0;
    std::int64_t step = 1;
    static nn::option_fields<options> fields() {
      return nn::option_fields<options>()
          .integer("from", &options::from, true)
          .integer("step", &options::step, 1, 1000);
    }
  };
  explicit counter(const options& chosen) : value_(chosen.from), step_(chosen.step) {}

  std::int64_t add(std::int64_t times) { return value_ += times * step_; }
  std::int64_t value() const { return value_; }
  void fail(const std::string& text) { throw std::runtime_error(text); }
  std::vector<std::pair<std::string, double>> echo(bool flag, const std::vector<std::string>& names, double x) {
    std::vector<std::pair<std::string, double>> all;
    for (const std::string& one : names) all.emplace_back(one, flag ? x : -x);
    return all;
  }
  tensor twice(const tensor& x) {
    tensor y(x.shape());
    for (std::size_t i = 0; i < x.count(); ++i) y.as<float>()[i] = 2 * x.as<float>()[i];
    return y;
  }
  void keep(remote_module<counter> other) { other_ = std::move(other); }
  remote_module<counter> kept() { return other_; }
  void forget() { other_ = {}; }
  task<std::int64_t> add_there(std::int64_t times) {
    const std::int64_t sum = co_await other_.call(&counter::add, times);
    co_return sum + 1000;
  }
  task<> wait_for_ever() {
    promise<> never;
    held_.push_back(std::move(never));
    co_await held_.back().get_future();
  }
  void hidden() {}

  named_tensors state_dict() const override {
    const std::vector<std::int64_t> one = {value_};
    return {{"value", tensor::of<std::int64_t>({1}, one)}};
  }
  void load_state_dict(const named_tensors& state) override {
    if (state.size() != 1 || state[0].first != "value") throw error(error_kind::input, "counter: one value is wanted");
    value_ = state[0].second.as<std::int64_t>()[0];
  }

  static void describe(methods<counter>& m) {
    m.add("add", &counter::add);
    m.add("value", &counter::value);
    m.add("fail", &counter::fail);
    m.add("echo", &counter::echo);
    m.add("twice", &counter::twice);
    m.add("keep", &counter::keep);
    m.add("kept", &counter::kept);
    m.add("forget", &counter::forget);
    m.add("add_there", &counter::add_there);
    m.add("wait_for_ever", &counter::wait_for_ever);
  }

 private:
  std::int64_t value_;
  std::int64_t step_;
  remote_module<counter> other_;
  std::vector<promise<>> held_;
};
const registered<counter> counters("counter");

namespace {

template <class Function, class... More>
void run(Function function, std::uint32_t trainers, More... more) {
  test::made_cluster cluster({"--servers", "2"});
  const auto one = cluster.server(0).make<counter>({.from = 10, .step = 2});
  cluster.run(trainers, function, one, more...);
}

template <class Function>
std::string error_of(Function function) {
  return test::error_of([&] { run(function, 1); });
}

task<> call_all(trainer, remote_module<counter> one) {
  EXPECT_EQ(co_await one.call(&counter::add, 3), 16);
  EXPECT_EQ(co_await one.call(&counter::value), 16);
  const std::vector<std::string> names = {"a", "long enough to be no short text"};
  const auto echoed = co_await one.call(&counter::echo, true, names, 0.5);
  const std::vector<std::pair<std::string, double>> expected = {{names[0], 0.5}, {names[1], 0.5}};
  EXPECT_EQ(echoed, expected);
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const tensor y = co_await one.call(&counter::twice, tensor::of<float>({1, 2, 3}, numbers));
  EXPECT_EQ(y.shape(), shape(1, 2, 3));
  EXPECT_EQ(y.as<float>()[5], 12);
}

TEST(RemoteObjects, TakeCallsWithValuesAndTensors) { run(call_all, 1); }

task<> hand_on(trainer me, remote_module<counter> one) {
  auto other = co_await me.server(1).make<counter>({.from = 100});
  co_await one.call(&counter::keep, other);
  EXPECT_EQ(co_await one.call(&counter::add_there, 5), 1105);  // from server 0 to server 1
  other.release();
  EXPECT_EQ(co_await one.call(&counter::add_there, 5), 1110);  // server 0 still holds it
  auto back = co_await one.call(&counter::kept);
  EXPECT_EQ(co_await back.call(&counter::value), 110);
  co_await one.call(&counter::forget);
  EXPECT_EQ(co_await back.call(&counter::value), 110);
  co_await back.call(&counter::keep, back);  // itself: freed with the run
}

TEST(RemoteObjects, CallOthersByHandlesThatTheyGot) { run(hand_on, 1); }

task<> free_it(trainer me, remote_module<counter> one) {
  auto other = co_await me.server(1).make<counter>({.from = 100});
  const auto copy = other;
  co_await one.call(&counter::keep, other);
  other.release();
  EXPECT_ERROR(co_await copy.call(&counter::value), "counter.value on server 1: the handle has been released");
  auto back = co_await one.call(&counter::kept);
  co_await one.call(&counter::forget);
  EXPECT_EQ(co_await back.call(&counter::value), 100);
}

TEST(RemoteObjects, LiveAsLongAsSomebodyRefersToThem) { run(free_it, 1); }

task<> keep_state(trainer me, remote_module<counter> one) {
  const auto state = co_await one.state_dict();
  EXPECT_EQ(state.at(0).first, "value");
  EXPECT_EQ(state.at(0).second.as<std::int64_t>()[0], 10);
  auto other = co_await me.server(1).make<counter>();
  co_await other.load_state_dict(state);
  EXPECT_EQ(co_await other.call(&counter::value), 10);
}

TEST(RemoteObjects, GiveAndTakeTheirState) { run(keep_state, 1); }

// -- errors ---------------------------------------------------------------------------

task<> fail_there(trainer, remote_module<counter> one) { co_await one.call(&counter::fail, "the disk is full"); }

TEST(RemoteObjectErrors, HaveTheTextOfTheUsersException) {
  EXPECT_EQ(error_of(fail_there), "trainer 0, step 0: counter.fail on server 0: the disk is full");
}

task<> survive(trainer, remote_module<counter> one) {
  for (int i = 0; i < 3; ++i) try {
      co_await one.call(&counter::fail, "no");
      ADD_FAILURE();
    } catch (const error&) {
    }
  EXPECT_EQ(co_await one.call(&counter::value), 10);
}

TEST(RemoteObjectErrors, DoNotEndTheServer) { run(survive, 1); }

task<> call_hidden(trainer, remote_module<counter> one) { co_await one.call(&counter::hidden); }

TEST(RemoteObjectErrors, NameAMethodThatIsNotDescribed) {
  EXPECT_EQ(error_of(call_hidden), "trainer 0, step 0: counter on server 0: a method that its describe does not add");
}

task<> make_with_step(trainer me, remote_module<counter>) { co_await me.server(1).make<counter>({.step = 0}); }
task<> make_nowhere(trainer me, remote_module<counter>) { co_await me.server(7).make<counter>({.from = 1}); }

TEST(RemoteObjectErrors, NameWrongOptionsAndServers) {
  EXPECT_EQ(error_of(make_with_step), "trainer 0, step 0: counter: step 0: must be an integer between 1 and 1000");
  EXPECT_EQ(error_of(make_nowhere), "trainer 0, step 0: server 7: there are 2; begin the program with --servers 8");
}

}  // namespace

class unknown final : public remote_object {
 public:
  static void describe(methods<unknown>&) {}
};

namespace {

task<> make_unknown(trainer me, remote_module<counter>) { co_await me.server(1).make<unknown>(); }

TEST(RemoteObjectErrors, NameATypeThatIsNotRegistered) {
  const std::string text = error_of(make_unknown);
  EXPECT_FINDS(text,
               "the type troupe::remote_object_test::unknown is not registered; declare a "
               "troupe::registered<...>");
  const auto known = text.find("(registered are ");
  ASSERT_NE(known, std::string::npos) << text;
  EXPECT_NE(text.find("counter", known), std::string::npos) << text;
}

task<> wait_shortly(trainer, remote_module<counter> one) {
  co_await one.with_deadline(std::chrono::milliseconds(20)).call(&counter::wait_for_ever);
}

TEST(RemoteObjectErrors, NameCalleeMethodAndTimeOfADeadline) {
  EXPECT_EQ(error_of(wait_shortly),
            "trainer 0, step 0: counter.wait_for_ever on server 0 did not return within 0.02 s");
}

task<> drop(trainer, remote_module<counter> one) {
  { auto forgotten = one.call(&counter::add, 1); }
  {
    const auto ask = [](remote_module<counter> receiver) -> task<> { co_await receiver.call(&counter::wait_for_ever); };
    running_task dropped(ask(one), [](const std::exception_ptr&) { ADD_FAILURE() << "it was dropped"; });
  }
  EXPECT_EQ(co_await one.call(&counter::value), 12);
}

TEST(RemoteObjectErrors, DoNotComeToATaskThatWasDropped) { run(drop, 1); }

// -- from a user's thread -------------------------------------------------------------

task<> call_from_outside(trainer, remote_module<counter> one) {
  std::int64_t sum = 0;
  promise<> done;
  auto coming = done.get_future();
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) sum = one.call(&counter::add, 1).get();
    done.set();
  });
  co_await std::move(coming);
  other.join();
  EXPECT_EQ(sum, 20);
}

TEST(RemoteObjects, TakeCallsFromAThreadOfOnesOwn) { run(call_from_outside, 1); }

task<> wait_without_end(trainer, remote_module<counter> one) {
  EXPECT_EQ(co_await one.with_deadline(std::chrono::milliseconds::max()).call(&counter::value), 10);
}

TEST(RemoteObjects, CanBeWaitedForWithoutEnd) { run(wait_without_end, 1); }

// -- types that are wrong -------------------------------------------------------------

}  // namespace

/// Throws something that is not an exception, or a standard exception.
class moody final : public remote_object {
 public:
  named_tensors state_dict() const override { throw 7; }
  void load_state_dict(const named_tensors& state) override {
    if (state.empty()) throw 7;
    throw std::runtime_error("not today");
  }
  int alive() const { return 1; }
  static void describe(methods<moody>& m) { m.add("alive", &moody::alive); }
};
const registered<moody> moody_ones("moody");

/// Describes two methods under one name.
class twice_named final : public remote_object {
 public:
  void first() {}
  void second() {}
  static void describe(methods<twice_named>& m) {
    m.add("go", &twice_named::first);
    m.add("go", &twice_named::second);
  }
};
const registered<twice_named> twice_named_ones("twice_named");

/// Describes one method under two names.
class twice_added final : public remote_object {
 public:
  void first() {}
  static void describe(methods<twice_added>& m) {
    m.add("go", &twice_added::first);
    m.add("run", &twice_added::first);
  }
};
const registered<twice_added> twice_added_ones("twice_added");

namespace {

task<> load_moody(trainer me, remote_module<counter>) {
  auto one = co_await me.server(1).make<moody>();
  const named_tensors none;
  const named_tensors some = {{"x", tensor(shape(1))}};
  std::vector<std::string> texts;
  try {
    co_await one.load_state_dict(none);
  } catch (const error& e) {
    texts.emplace_back(e.what());
  }
  try {
    co_await one.load_state_dict(some);
  } catch (const error& e) {
    texts.emplace_back(e.what());
  }
  try {
    co_await one.state_dict();
  } catch (const error& e) {
    texts.emplace_back(e.what());
  }
  const std::vector<std::string> expected = {
      "moody.load_state_dict on server 1: an exception of unknown type",
      "moody.load_state_dict on server 1: not today",
      "moody.state_dict on server 1: an exception of unknown type",
  };
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(co_await one.call(&moody::alive), 1);
}

TEST(RemoteObjectErrors, NameTheObjectWhoseStateThrows) { run(load_moody, 1); }

task<> make_twice_named(trainer me, remote_module<counter>) { co_await me.server(1).make<twice_named>(); }
task<> make_twice_added(trainer me, remote_module<counter>) { co_await me.server(1).make<twice_added>(); }

TEST(RemoteObjectErrors, NameAMethodThatIsDescribedTwice) {
  EXPECT_NE(
      error_of(make_twice_named).find("twice_named: describe has two methods with the name go; choose another for one"),
      std::string::npos);
  EXPECT_FINDS(error_of(make_twice_added), "twice_added: describe has one method twice, as go and as run");
}

}  // namespace
}  // namespace troupe::remote_object_test
