// Calls of objects on servers that are batched into one.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/library/made_cluster.hpp"
#include "troupe/remote_object.hpp"
#include "troupe/troupe.hpp"

namespace troupe::batched_calls_test {

/// Doubles rows, and counts its calls.
class doubler final : public remote_object {
 public:
  tensor infer(const tensor& rows) {
    ++calls_;
    tensor y(rows.shape());
    for (std::size_t i = 0; i < rows.count(); ++i) y.as<float>()[i] = 2 * rows.as<float>()[i];
    return y;
  }
  std::int64_t calls() const { return calls_; }
  static void describe(methods<doubler>& m) {
    m.add_batched("infer", &doubler::infer, {.max_batch_size = 4, .wait = std::chrono::seconds(100)});
    m.add("calls", &doubler::calls);
  }

 private:
  std::int64_t calls_ = 0;
};
const registered<doubler> doublers("doubler");

namespace {

task<> batch_up(trainer, remote_module<doubler> one) {
  std::vector<future<tensor>> answers;
  for (int i = 0; i < 12; ++i) {
    const std::vector<float> row = {static_cast<float>(i), 1};
    answers.push_back(one.call(&doubler::infer, tensor::of<float>({1, 2}, row)));
  }
  for (int i = 0; i < 12; ++i) {
    const tensor y = co_await std::move(answers[i]);
    EXPECT_EQ(y.shape(), shape(1, 2));
    EXPECT_EQ(y.as<float>()[0], 2 * i);
  }
  EXPECT_EQ(co_await one.call(&doubler::calls), 3);
}

TEST(RemoteObjects, JoinBatchedCalls) {
  test::made_cluster cluster;
  cluster.run(1, batch_up, cluster.server(0).make<doubler>());
}

}  // namespace
}  // namespace troupe::batched_calls_test
