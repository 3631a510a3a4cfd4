// Device memory: allocated, freed, and reused.

#include <cstring>
#include <thread>

#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::device_memory_test {
namespace {

template <class Place>
class DeviceMemory : public stream_test<Place> {};
TYPED_TEST_SUITE(DeviceMemory, each_device, device_names);

TYPED_TEST(DeviceMemory, GivesEachItsOwn) {
  std::vector<std::shared_ptr<std::byte>> blocks;
  for (const std::size_t bytes : {1, 511, 512, 513, 100000, 5000000}) {
    blocks.push_back(this->device().allocate(bytes));
    ASSERT_NE(blocks.back(), nullptr);
    for (std::size_t i = 0; i + 1 < blocks.size(); ++i) EXPECT_NE(blocks[i], blocks.back());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back().get()) % 16, 0U);
  }
}

TYPED_TEST(DeviceMemory, OfMoreBytesThanAnAddressHasIsRefused) {
  device_array<double> there;
  staging_array<double> here;
  for (const std::size_t count : {SIZE_MAX, SIZE_MAX / 8 + 1, SIZE_MAX / 8 + 2, SIZE_MAX / 16 + 1}) {
    EXPECT_THROW(there.resize(this->on(), count), std::bad_alloc) << count;
    EXPECT_THROW(there.make(this->on(), count), std::bad_alloc) << count;
    EXPECT_THROW(here.resize(this->on(), count), std::bad_alloc) << count;
    EXPECT_EQ(there.capacity(), 0U);
  }
}

TYPED_TEST(DeviceMemory, StagingMemoryIsTheHosts) {
  const auto staging = this->device().allocate_staging(1000);
  std::memset(staging.get(), 5, 1000);
  const auto x = this->template buffer<std::byte>(1000);
  this->on().upload(staging.get(), x.data(), 1000);
  EXPECT_EQ(this->get(x), std::vector<std::byte>(1000, std::byte{5}));
}

TYPED_TEST(DeviceMemory, WhatIsKeptCountsAsFreeAndIsUsedAgain) {
  if (this->device().is_host()) GTEST_SKIP() << "skipped: the processor's allocator decides";
  const std::size_t bytes = 50 << 20;
  std::shared_ptr<std::byte> block = this->device().allocate(bytes);
  const std::uint64_t free = this->device().memory().free;
  const std::byte* const address = block.get();
  block.reset();
  EXPECT_EQ(this->device().memory().free, free + bytes);
  block = this->device().allocate(bytes - 1000);
  EXPECT_EQ(block.get(), address);
  EXPECT_EQ(this->device().memory().free, free);
  EXPECT_LE(this->device().memory().free, this->device().memory().total);
}

/// For children with a small emulated device.
TYPED_TEST(DeviceMemory, DISABLED_LetsGo) {
  if (this->device().is_host()) return;
  const std::size_t free = this->device().memory().free;
  this->device().allocate(free / 8 * 5).reset();
  EXPECT_NE(this->device().allocate(free / 4 * 3), nullptr);
}

TYPED_TEST(DeviceMemory, LetsGoOfWhatIsKeptBeforeItRefuses) {
  if (this->device().is_host()) GTEST_SKIP() << "skipped: the host would start to swap";
  const std::string output =
      child_process("DeviceMemory/Gpu.DISABLED_LetsGo", "TROUPE_EMULATED_CUDA=memory_mib=64").output();
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
}

TYPED_TEST(DeviceMemory, SaysHowMuchIsFreeAndWhatToTry) {
  if (this->device().is_host()) GTEST_SKIP() << "skipped: the host would start to swap";
  try {
    this->device().allocate(std::size_t{1} << 50);
    FAIL() << "a device with a petabyte";
  } catch (const device_error& error) {
    const std::string text = error.what();
    for (const char* const part : {"1073741824 MiB", "are free", "--batch-size", "--devices", "--server-device cpu"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  this->on().synchronize();
}

TYPED_TEST(DeviceMemory, MayBeUsedFromAnyThread) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto on = this->device().make_stream();
      const auto value = static_cast<float>(t);
      for (int round = 0; round < 20; ++round) {
        const auto memory = this->device().allocate(4000);
        auto* const x = reinterpret_cast<float*>(memory.get());
        on->fill(1000, value, x);
        std::vector<float> got(1000);
        on->download(x, got.data(), 4000);
        on->synchronize();
        EXPECT_EQ(got, std::vector<float>(1000, value));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TYPED_TEST(DeviceMemory, ACudaDeviceHasAnIdentity) {
  EXPECT_EQ(this->device().uuid().size(), this->device().is_host() ? 0U : 40U);
  EXPECT_EQ(this->device().number(), this->device().is_host() ? -1 : 0);
}

}  // namespace
}  // namespace troupe::kernels::test::device_memory_test
