// Goal: numbers in a device's memory pass within a process unchanged, and reach other processes as the same bytes.
// Method: memory that can only be read through `read`, like a device's.

#include <gtest/gtest.h>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "protocol/message_content.hpp"
#include "protocol/messages.hpp"

namespace troupe::protocol::device_blob_test {
namespace {

/// Uses addresses that no memory has.
class hidden_memory final : public msg::device_memory {
 public:
  static constexpr std::uintptr_t begin = 4096;

  explicit hidden_memory(std::vector<float> numbers) : numbers_(std::move(numbers)) {}

  void read(const std::byte* from, std::size_t size, std::byte* to) const override {
    ++reads;
    const auto first = reinterpret_cast<std::uintptr_t>(from) - begin;
    ASSERT_LE(first + size, numbers_.size() * sizeof(float));
    std::memcpy(to, reinterpret_cast<const std::byte*>(numbers_.data()) + first, size);
  }

  mutable int reads = 0;

 private:
  std::vector<float> numbers_;
};

const std::vector<float> numbers = {1, -2, 3.5F, 1e-40F};

struct hidden {
  std::shared_ptr<const hidden_memory> memory = std::make_shared<const hidden_memory>(numbers);
  msg::blob bytes =
      msg::blob::on_device(memory, reinterpret_cast<const void*>(hidden_memory::begin), numbers.size() * sizeof(float));
};

std::vector<float> floats_of(const msg::blob& bytes) {
  const auto all = bytes.as<float>();
  return {all.begin(), all.end()};
}

TEST(DeviceBlob, ACopyOnTheHostHasTheSameBytes) {
  const hidden there;
  EXPECT_EQ(there.bytes.device(), there.memory.get());
  EXPECT_EQ(floats_of(there.bytes.on_host()), numbers);
  EXPECT_EQ(there.bytes.on_host().device(), nullptr);
  EXPECT_EQ(floats_of(there.bytes.part(4, 8).on_host()), (std::vector<float>{-2, 3.5F}));
}

TEST(DeviceBlob, WhatIsOnTheHostIsNotCopied) {
  const msg::blob here = msg::blob::own(numbers);
  EXPECT_EQ(here.on_host().data(), here.data());
}

TEST(DeviceBlob, PinnedMemoryMayOutliveTheBlob) {
  const auto memory = std::make_shared<std::vector<float>>(numbers);
  const std::shared_ptr<const std::byte> first(memory, reinterpret_cast<const std::byte*>(memory->data()));
  msg::blob there = msg::blob::in_pinned_memory(first, 3 * sizeof(float));
  EXPECT_EQ(floats_of(there), (std::vector<float>{1, -2, 3.5F}));
  EXPECT_EQ(there.data(), first.get());
  EXPECT_EQ(there.on_host().data(), first.get());
  EXPECT_EQ(there.part(4, 8).pinned_memory(), first);
  EXPECT_EQ(msg::blob::own(numbers).pinned_memory(), nullptr);
  const std::shared_ptr<const std::byte> uploads = there.pinned_memory();
  EXPECT_EQ(uploads, first);
  const std::weak_ptr<const void> owner = there.owner();
  there = {};
  EXPECT_TRUE(owner.expired()) << "an upload is no reader of the blob";
  EXPECT_EQ(memory.use_count(), 3) << "memory, first, uploads";
}

TEST(DeviceBlob, NobodyReadsItToPassItOn) {
  const hidden there;
  const msg::reduce share{{}, 0, 0, 1, false, {dtype::f32, 4, 1, there.bytes}};
  const msg::reduce same = share;
  EXPECT_EQ(same.grad.bytes.data(), there.bytes.data());
  EXPECT_TRUE(is_on_device(share));
  EXPECT_FALSE(is_on_device(msg::reduce{{}, 0, 0, 1, false, msg::tensor::own(4, 1, std::vector<float>(numbers))}));
  EXPECT_EQ(weight_of(share), sizeof share + 16);
  EXPECT_EQ(there.memory->reads, 0);
}

TEST(DeviceBlob, ComesOutOfAMessageAsTheHosts) {
  const hidden there;
  caf::byte_buffer bytes;
  caf::binary_serializer sink(nullptr, bytes);
  ASSERT_TRUE(sink.apply(there.bytes));
  msg::blob back;
  caf::binary_deserializer source(nullptr, bytes);
  ASSERT_TRUE(source.apply(back));
  EXPECT_EQ(floats_of(back), numbers);
}

TEST(DeviceBlob, HasTheDigestOfItsNumbersInATrace) {
  const hidden there;
  const msg::reduce share{{}, 0, 0, 1, false, {dtype::f32, 4, 1, there.bytes}};
  const msg::reduce on_host{{}, 0, 0, 1, false, msg::tensor::own(4, 1, std::vector<float>(numbers))};
  const auto found = content_of(share, true);
  const auto expected = content_of(on_host, true);
  ASSERT_EQ(found.parts.size(), 1U);
  EXPECT_EQ(found.parts[0].digest, expected.parts[0].digest);
  EXPECT_EQ(found.parts[0].bytes, expected.parts[0].bytes);
}

}  // namespace
}  // namespace troupe::protocol::device_blob_test
