// Floats keep their bits through a real socket.

#include <gtest/gtest.h>

#include <bit>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <cstdint>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe::protocol::socket_test {
namespace {

/// Every exponent with several mantissas and both signs, including subnormals, zeros, infinities and NaN payloads.
std::vector<float> telling_floats() {
  std::vector<float> all;
  std::vector<std::uint32_t> mantissas = {0x000000, 0x000001, 0x2aaaaa, 0x400000, 0x555555, 0x7fffff};
  for (int bit = 0; bit < 23; ++bit) mantissas.push_back(1U << bit);
  for (std::uint32_t sign : {0U, 1U})
    for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
      for (std::uint32_t mantissa : mantissas)
        all.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | mantissa));
  return all;
}

std::vector<std::uint32_t> bits_of(std::span<const float> numbers) {
  std::vector<std::uint32_t> bits;
  for (float x : numbers) bits.push_back(std::bit_cast<std::uint32_t>(x));
  return bits;
}

caf::behavior echo() {
  return {[](const msg::tensor& x) { return x; }};
}

caf::behavior count_bytes() {
  return {[](const msg::tensor& x) { return static_cast<std::uint64_t>(x.bytes.size()); }};
}

class TwoNodes : public testing::Test {
 protected:
  struct config : caf::actor_system_config {
    config() {
      load<caf::io::middleman>();
      set("caf.middleman.workers", 1);
    }
  };

  /// Spawns `behavior` on one node; returns the other node's handle to it, through a socket on the loopback interface.
  caf::actor remote(caf::behavior (*behavior)()) {
    auto local = server_.spawn(behavior);
    auto port = server_.middleman().publish(local, 0, "127.0.0.1");
    EXPECT_TRUE(port) << caf::to_string(port.error());
    auto handle = client_.middleman().remote_actor("127.0.0.1", *port);
    EXPECT_TRUE(handle) << caf::to_string(handle.error());
    EXPECT_NE(handle->node(), client_.node());
    handles_.push_back(local);
    return *handle;
  }

  ~TwoNodes() override {
    for (const auto& handle : handles_) caf::anon_send_exit(handle, caf::exit_reason::user_shutdown);
  }

  config server_config_;
  config client_config_;
  caf::actor_system server_{server_config_};
  caf::actor_system client_{client_config_};
  std::vector<caf::actor> handles_;
};

TEST_F(TwoNodes, EveryExponentSubnormalsInfinitiesAndNanPayloadsArriveBitForBit) {
  const auto sent = telling_floats();
  caf::scoped_actor self(client_);
  std::vector<std::uint32_t> received;
  self->request(remote(echo), std::chrono::seconds(60), msg::tensor::own(sent.size(), 1, sent))
      .receive([&](const msg::tensor& x) { received = bits_of(x.as<float>()); },
               [](const caf::error& error) { FAIL() << caf::to_string(error); });
  EXPECT_EQ(received, bits_of(sent));
}

TEST_F(TwoNodes, ATensorOfSeveralMebibytesArrivesWhole) {
  caf::scoped_actor self(client_);
  constexpr std::uint64_t count = 2'000'003;
  std::uint64_t arrived = 0;
  self->request(remote(count_bytes), std::chrono::seconds(60),
                msg::tensor::own(count, 1, std::vector<float>(count, 0.5F)))
      .receive([&](std::uint64_t bytes) { arrived = bytes; },
               [](const caf::error& error) { FAIL() << caf::to_string(error); });
  EXPECT_EQ(arrived, count * sizeof(float));
}

}  // namespace
}  // namespace troupe::protocol::socket_test
