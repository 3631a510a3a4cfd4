// All-reduce between the devices of one process and of several, and with a missing rank.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/devices.hpp"
#include "tests/kernels/child_process.hpp"

namespace troupe::kernels::communicator_test {
namespace {

using state = communicator::state;
using namespace std::chrono_literals;

#define SKIP_WITH_FEWER_DEVICES_THAN(count)                                                    \
  if (const device_report report = find_devices(); report.devices.size() < (count)) {          \
    GTEST_SKIP() << "skipped: needs " << (count) << " CUDA devices (" << report.reason << ")"; \
  }

constexpr std::size_t counts[] = {1, 3, 1000, 65537, 200001};

state wait_until_settled(communicator& group) {
  while (group.poll() == state::busy) std::this_thread::sleep_for(1ms);
  return group.poll();
}

/// Rank `rank`'s input: small whole numbers, whose sums are exact in any order.
float addend(int rank, std::size_t i) { return static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 100); }

/// One rank: a device, a stream, and numbers to sum.
struct rank_on_device {
  rank_on_device(device& where, int number) : on(where), rank(number), work(on.make_stream()) {}

  device& on;
  int rank;
  std::unique_ptr<stream> work;
  std::size_t count = 0;
  std::shared_ptr<std::byte> memory;
  std::shared_ptr<std::byte> staging;

  float* numbers() const { return reinterpret_cast<float*>(memory.get()); }
  float* host() const { return reinterpret_cast<float*>(staging.get()); }

  void prepare(std::size_t size) {
    count = size;
    memory = on.allocate(count * sizeof(float));
    staging = on.allocate_staging(count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) host()[i] = addend(rank, i);
    work->upload(host(), numbers(), count * sizeof(float));
  }

  void expect_sum(int ranks) {
    work->download(numbers(), host(), count * sizeof(float));
    work->synchronize();
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int r = 0; r < ranks; ++r) sum += addend(r, i);
      ASSERT_EQ(host()[i], sum) << "number " << i << " of " << count;
    }
  }
};

/// Sums the numbers of all ranks of one process, several times.
void add_up(communicator& group, std::vector<rank_on_device>& mine, int ranks) {
  for (const std::size_t count : counts) {
    std::vector<float*> buffers;
    std::vector<stream*> streams;
    for (rank_on_device& one : mine) {
      one.prepare(count);
      buffers.push_back(one.numbers());
      streams.push_back(one.work.get());
    }
    ASSERT_EQ(wait_until_settled(group), state::ready) << group.error();
    group.all_reduce(buffers, count, streams);
    ASSERT_EQ(wait_until_settled(group), state::ready) << group.error();
    for (rank_on_device& one : mine) one.expect_sum(ranks);
  }
}

std::unique_ptr<communicator> connect(const communicator_id& id, std::vector<device*> mine, int first, int ranks) {
  return cuda_backend().connect(id, mine, first, ranks);
}

void be_one_rank(const communicator_id& id, device& on, int rank, int ranks) {
  const auto group = connect(id, {&on}, rank, ranks);
  std::vector<rank_on_device> mine;
  mine.emplace_back(on, rank);
  add_up(*group, mine, ranks);
}

TEST(CommunicatorGpu, OneDeviceAloneKeepsItsNumbers) {
  SKIP_WITH_FEWER_DEVICES_THAN(1u);
  be_one_rank(cuda_backend().make_communicator_id(), cuda_backend().open(0), 0, 1);
}

TEST(CommunicatorGpu, TwoDevicesOfOneProcessAddUp) {
  SKIP_WITH_FEWER_DEVICES_THAN(2u);
  backend& cuda = cuda_backend();
  const auto group = connect(cuda.make_communicator_id(), {&cuda.open(0), &cuda.open(1)}, 0, 2);
  std::vector<rank_on_device> mine;
  for (const int rank : {0, 1}) mine.emplace_back(cuda.open(rank), rank);
  add_up(*group, mine, 2);
}

TEST(CommunicatorGpu, TwoThreadsWithADeviceEachAddUp) {
  SKIP_WITH_FEWER_DEVICES_THAN(2u);
  backend& cuda = cuda_backend();
  const communicator_id id = cuda.make_communicator_id();
  std::thread other([&] { be_one_rank(id, cuda.open(1), 1, 2); });
  be_one_rank(id, cuda.open(0), 0, 2);
  other.join();
}

// -- processes --------------------------------------------------------------------------------------------------------

std::string in_hex(const communicator_id& id) {
  std::string text;
  for (const std::byte part : id) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(part));
    text += digits;
  }
  return text;
}

communicator_id from_hex(const std::string& text) {
  communicator_id id;
  for (std::size_t i = 0; i < id.size(); ++i)
    id[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return id;
}

/// For a child: rank 1 of 2 of the communicator COMMUNICATOR, on device 1.
TEST(CommunicatorChild, DISABLED_IsRankOne) {
  be_one_rank(from_hex(std::getenv("COMMUNICATOR")), cuda_backend().open(1), 1, 2);
}

TEST(CommunicatorGpu, TwoProcessesAddUp) {
  SKIP_WITH_FEWER_DEVICES_THAN(2u);
  backend& cuda = cuda_backend();
  const communicator_id id = cuda.make_communicator_id();
  test::child_process other("CommunicatorChild.DISABLED_IsRankOne", "COMMUNICATOR=" + in_hex(id));
  be_one_rank(id, cuda.open(0), 0, 2);
  const std::string output = other.output();
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
}

// -- failures ---------------------------------------------------------------------------------------------------------

TEST(CommunicatorGpu, ARankThatDoesNotComeKeepsTheOthersBusyUntilTheyAbort) {
  SKIP_WITH_FEWER_DEVICES_THAN(1u);
  backend& cuda = cuda_backend();
  const auto group = connect(cuda.make_communicator_id(), {&cuda.open(0)}, 0, 2);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(group->poll(), state::busy) << group->error();
    std::this_thread::sleep_for(1ms);
  }
  group->abort();
  EXPECT_EQ(group->poll(), state::failed);
  EXPECT_FALSE(group->error().empty());
}

TEST(CommunicatorGpu, AbortEndsASumThatWaitsForAnotherRank) {
  SKIP_WITH_FEWER_DEVICES_THAN(2u);
  backend& cuda = cuda_backend();
  const communicator_id id = cuda.make_communicator_id();
  const auto group = connect(id, {&cuda.open(0)}, 0, 2);
  const auto other = connect(id, {&cuda.open(1)}, 1, 2);
  ASSERT_EQ(wait_until_settled(*group), state::ready) << group->error();
  ASSERT_EQ(wait_until_settled(*other), state::ready) << other->error();

  rank_on_device mine(cuda.open(0), 0);
  mine.prepare(1000);
  float* const buffers[] = {mine.numbers()};
  stream* const streams[] = {mine.work.get()};
  group->all_reduce(buffers, mine.count, streams);
  ASSERT_EQ(wait_until_settled(*group), state::ready) << group->error();
  const auto after = mine.work->record();
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(after->is_over());
  group->abort();
  mine.work->synchronize();
  EXPECT_TRUE(after->is_over());
}

TEST(CommunicatorGpu, TwoRanksOnOneDeviceAreRefused) {
  SKIP_WITH_FEWER_DEVICES_THAN(1u);
  backend& cuda = cuda_backend();
  const communicator_id id = cuda.make_communicator_id();
  const auto first = connect(id, {&cuda.open(0)}, 0, 2);
  const auto second = connect(id, {&cuda.open(0)}, 1, 2);
  EXPECT_EQ(wait_until_settled(*first), state::failed);
  EXPECT_EQ(wait_until_settled(*second), state::failed);
  EXPECT_NE(first->error().find("Duplicate GPU"), std::string::npos) << first->error();
  EXPECT_NE(first->error().find("device"), std::string::npos) << first->error();
}

}  // namespace
}  // namespace troupe::kernels::communicator_test
