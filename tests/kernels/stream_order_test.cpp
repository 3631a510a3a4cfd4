// The order of a stream's calls: copies, events between streams, and captured calls.

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_order_test {
namespace {

template <class Place>
class StreamOrder : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamOrder, each_device, device_names);

TYPED_TEST(StreamOrder, CopiesThereAndBack) {
  source_of_numbers random(1);
  for (const std::size_t count : odd_sizes) {
    const std::vector<float> numbers = random.numbers(count);
    const auto first = this->put(numbers);
    const auto second = this->template buffer<float>(count);
    this->on().copy(first.data(), second.data(), count * sizeof(float));
    EXPECT_EQ(this->get(second), numbers);
  }
  this->on().copy(nullptr, nullptr, 0);
  this->on().upload(nullptr, nullptr, 0);
  this->on().download(nullptr, nullptr, 0);
  this->on().synchronize();
}

TYPED_TEST(StreamOrder, AStreamKnowsItsDevice) { EXPECT_EQ(&this->on().device(), &this->device()); }

TYPED_TEST(StreamOrder, WaitsForAnotherStreamsEvent) {
  constexpr std::size_t count = 1 << 20;
  const auto other = this->device().make_stream();
  const auto x = this->template buffer<float>(count);
  const auto y = this->template buffer<float>(count);
  for (int round = 0; round < 5; ++round) {
    this->on().fill(count, static_cast<float>(round), x.data());
    this->on().multiply(count, 3.0F, x.data());
    const auto filled = this->on().record();
    other->wait(*filled);
    other->copy(x.data(), y.data(), count * sizeof(float));
    const auto copied = other->record();
    this->on().wait(*copied);
    ASSERT_EQ(this->get(y), std::vector<float>(count, 3.0F * static_cast<float>(round)));
  }
}

TYPED_TEST(StreamOrder, AnEventIsOverWhenTheStreamHasComeThere) {
  const auto x = this->template buffer<float>(1 << 20);
  this->on().fill(x.size(), 1.0F, x.data());
  const auto place = this->on().record();
  while (!place->is_over()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  std::thread([&] { EXPECT_TRUE(place->is_over()); }).join();
  const auto again = this->on().record();
  this->on().synchronize();
  EXPECT_TRUE(again->is_over());
}

TYPED_TEST(StreamOrder, TheHostWaitsForAnEventOfOneStreamOnly) {
  constexpr std::size_t count = 1 << 20;
  const auto x = this->template buffer<float>(count);
  const auto other = this->device().make_stream();
  for (int round = 1; round <= 5; ++round) {
    mirrored_array<float> here;
    here.resize(*other, count);
    other->fill(count, static_cast<float>(round), here.data());
    here.download(*other, 0, count / 2);
    const auto copied = other->record();
    for (int more = 0; more < 20; ++more) this->on().fill(count, 1.0F, x.data());
    copied->wait();
    EXPECT_TRUE(copied->is_over());
    ASSERT_EQ(std::vector<float>(here.host(), here.host() + count / 2),
              std::vector<float>(count / 2, static_cast<float>(round)));
    other->synchronize();
  }
}

TYPED_TEST(StreamOrder, UploadsFollowEachOtherBeforeTheStreamHasPassed) {
  constexpr std::size_t count = 100'000;
  constexpr std::size_t rounds = 10;
  uploaded_array<float> numbers;
  const auto all = this->template buffer<float>(rounds * count);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<float> given(count, static_cast<float>(round));
    const float* const there = numbers.put(this->on(), given);
    this->on().copy(there, all.data() + round * count, count * sizeof(float));
    given.assign(count, -1.0F);  // no longer needed
  }
  const std::vector<float> got = this->get(all);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<float>(i / count)) << i;
}

TYPED_TEST(StreamOrder, UploadsFromStagingMemoryThatStaysUntilTheStreamHasPassed) {
  constexpr std::size_t count = 100'000;
  constexpr std::size_t rounds = 10;
  const auto all = this->template buffer<float>(rounds * count);
  const auto other = this->template buffer<float>(1 << 20);
  std::vector<uploaded_array<float>> numbers(rounds);  // on the processor, uploaded data stay in place
  std::vector<std::weak_ptr<std::byte>> given(rounds);
  std::vector<std::shared_ptr<std::byte>> kept;
  for (std::size_t round = 0; round < rounds; ++round) {
    auto memory = this->device().allocate_staging(count * sizeof(float));
    auto* const first = reinterpret_cast<float*>(memory.get());
    std::fill_n(first, count, static_cast<float>(round));
    for (int before = 0; before < 5; ++before) this->on().fill(1 << 20, 1.0F, other.data());
    const auto waits_before = emulated_cuda::counts_now();
    const float* const there = numbers[round].put(this->on(), {first, count}, memory);
    if (const auto waits = emulated_cuda::counts_now()) {
      EXPECT_EQ(waits->waits, waits_before->waits);
    }
    this->on().copy(there, all.data() + round * count, count * sizeof(float));
    given[round] = memory;
    if (this->device().is_host()) kept.push_back(memory);
    memory.reset();
    ASSERT_FALSE(given[round].expired()) << "others would get the memory";
    // The next batch gets memory of the same size, and overwrites it.
    const auto next = this->device().allocate_staging(count * sizeof(float));
    std::fill_n(reinterpret_cast<float*>(next.get()), count, -1.0F);
  }
  const std::vector<float> got = this->get(all);
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<float>(i / count)) << i;
  if (this->device().is_host()) return;
  const std::vector<float> elsewhere(count, 5);
  numbers[0].put(this->on(), elsewhere);
  EXPECT_TRUE(given[0].expired()) << "its upload is over";
  EXPECT_FALSE(given[1].expired());
  this->on().synchronize();
}

TYPED_TEST(StreamOrder, RepeatsWhatItHasLearned) {
  source_of_numbers random(2);
  const auto x = this->put(random.numbers(100));
  const auto sum = this->put(std::vector<float>(100, 0.0F));
  std::vector<float> expected(100, 0.0F);
  std::unique_ptr<graph> captured;
  int calls = 0;
  for (int step = 0; step < 6; ++step) {
    const std::vector<float> numbers = random.numbers(100);
    this->on().upload(numbers.data(), x.data(), 400);
    this->on().capture_or_launch(captured, [&] {
      ++calls;
      this->on().multiply(100, 2.0F, x.data());
      this->on().add_columns(1, 100, {x.data(), 100}, {sum.data(), 100});
    });
    for (std::size_t i = 0; i < 100; ++i) expected[i] += 2 * numbers[i];
    ASSERT_EQ(this->get(sum), expected) << "step " << step;
  }
  EXPECT_EQ(calls, this->device().is_host() ? 6 : 2);
}

TYPED_TEST(StreamOrder, RepeatsNothing) {
  std::unique_ptr<graph> captured;
  for (int step = 0; step < 4; ++step) this->on().capture_or_launch(captured, [] {});
  this->on().synchronize();
}

TYPED_TEST(StreamOrder, ForgetsCallsThatThrew) {
  const auto x = this->put(std::vector<float>(10, 1.0F));
  std::unique_ptr<graph> captured;
  const auto doubled = [&](bool fail) {
    return [this, &x, fail] {
      this->on().multiply(10, 2.0F, x.data());
      if (fail) throw std::runtime_error("as told");
      this->on().multiply(10, 2.0F, x.data());
    };
  };
  this->on().capture_or_launch(captured, doubled(false));
  EXPECT_THROW(this->on().capture_or_launch(captured, doubled(true)), std::runtime_error);
  this->on().fill(10, 1.0F, x.data());
  for (int step = 0; step < 3; ++step) this->on().capture_or_launch(captured, doubled(false));
  EXPECT_EQ(this->get(x), std::vector<float>(10, 64.0F));
}

TYPED_TEST(StreamOrder, KeepsWhatGraphsUseWhenMoreIsNeeded) {
  // The scratch memory of bf16 products grows between two launches. Rows of the small product have 16 bytes: cuBLASLt's
  // kernels read that many at once, and would read unwritten memory after shorter rows.
  constexpr std::size_t few = 8;
  if (this->device().is_host()) GTEST_SKIP() << "skipped: the processor knows f32 only";
  const auto on = this->device().make_stream(matmul_precision::bf16);
  const auto ones = this->put(std::vector<float>(200 * 200, 1.0F));
  const auto bias = this->put(std::vector<float>(200, 1.0F));
  const auto small = this->put(std::vector<float>(few * few, 0.0F));
  const auto large = this->put(std::vector<float>(200 * 200, 0.0F));
  std::unique_ptr<graph> captured;
  for (int step = 0; step < 4; ++step) {
    on->capture_or_launch(captured, [&] {
      on->linear_forward(few, few, few, ones.data(), ones.data(), bias.data(), activation::none, small.data());
    });
    on->synchronize();
    ASSERT_EQ(this->get(small), std::vector<float>(few * few, static_cast<float>(few) + 1));
    if (step != 1) continue;
    on->linear_forward(200, 200, 200, ones.data(), ones.data(), bias.data(), activation::none, large.data());
    on->synchronize();
    ASSERT_EQ(this->get(large), std::vector<float>(200 * 200, 201.0F));
  }
}

}  // namespace
}  // namespace troupe::kernels::test::stream_order_test
