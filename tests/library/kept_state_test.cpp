// A program's own state in checkpoints: its order and its names.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/run_trainers.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "troupe/troupe.hpp"

namespace troupe::kept_state_test {
namespace {

/// Two numbers in an order that is not alphabetical.
struct mean {
  double sum = 6;
  double count = 3;
  std::vector<std::string> names = {};
  named_tensors state_dict() const {
    return {{"sum", tensor::of(shape(1), std::span<const double>(&sum, 1))},
            {"count", tensor::of(shape(1), std::span<const double>(&count, 1))}};
  }
  void load_state_dict(const named_tensors& state) {
    for (const auto& [name, numbers] : state) names.push_back(name);
  }
};

task<> keep_mean(trainer me, std::vector<std::string>* names) {
  mean kept;
  me.register_state("mean", kept);
  distributed_optimizer optimizer(sgd{}, me.data_parallel(nn::linear(2, 1)));
  for ([[maybe_unused]] const auto step : me.steps(2)) {
    auto context = me.new_context();
    co_await optimizer.step(context);
  }
  *names = kept.names;
}

TEST(ResumeState, ComesBackInItsOrder) {
  const trace::temporary_folder folder;
  std::vector<std::string> names;
  test::run_with({"--quiet", "--save", folder.path().string()}, 1, keep_mean, &names);
  EXPECT_EQ(names, std::vector<std::string>());
  test::run_with({"--quiet", "--resume", folder.path().string()}, 1, keep_mean, &names);
  EXPECT_EQ(names, (std::vector<std::string>{"sum", "count"}));
}

task<> keep_as(trainer me, const char* name) {
  mean kept;
  me.register_state(name, kept);
  co_return;
}

TEST(ResumeState, HasNamesWithoutDots) {
  EXPECT_EQ(
      test::error_of(1, keep_as, "train.b"),
      "trainer 0, step 0: register_state: the name 'train.b' has other characters than letters, digits, '_' and '-'");
  EXPECT_EQ(test::error_of(1, keep_as, ""), "trainer 0, step 0: register_state: the name is empty");
}

TEST(ResumeState, HasNamesThatCheckpointsCanKeep) {
  const std::string longest(187, 'a'), too_long(188, 'a');  // rank0.kept.NAME.x has 200
  EXPECT_EQ(test::error_of(1, keep_as, longest.c_str()), "no error");
  const std::string said = test::error_of(1, keep_as, too_long.c_str());
  EXPECT_TRUE(said.ends_with("aaa...' has 188 characters; at most 187 are possible")) << said;
  const trace::temporary_folder folder;
  const std::string sum_is_too_long = test::error_of([&] {
    test::run_with({"--quiet", "--save", folder.path().string()}, 1, keep_as, longest.c_str());
  });
  EXPECT_FINDS(sum_is_too_long, "a tensor 'sum', a name that checkpoints cannot keep");
  EXPECT_TRUE(sum_is_too_long.ends_with(", at most 1")) << sum_is_too_long;
}

}  // namespace
}  // namespace troupe::kept_state_test
