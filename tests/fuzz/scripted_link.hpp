// A link whose peer sends what an input says.
//
// The input is a sequence of frames: a kind (0: the first user kind), the length of its body (2 bytes), and the body.
// Each frame has separate memory, aligned like a link's.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.hpp"
#include "cluster/links/bytes.hpp"
#include "cluster/links/frame.hpp"
#include "cluster/links/link.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

/// Delivers the peer's frames, and drops what is sent to it.
class scripted_link final : public links::link {
 public:
  void start(callbacks what) override { callbacks_ = std::move(what); }
  void send(std::uint8_t, std::vector<links::piece> body, bool) override {
    for (const links::piece& one : body) digest_of(std::span(one.data, one.size));  // reads all of it
  }
  void flush() override {}
  void pause_reading(bool) override {}
  void close() override { closed_ = true; }
  std::uint64_t queued_bytes() const override { return 0; }
  const links::hello& peer() const override { return peer_; }
  const std::string& peer_certificate() const override { return certificate_; }
  links::endpoint local_address() const override { return {}; }
  links::endpoint remote_address() const override { return {}; }

  bool closed() const { return closed_; }
  /// Releases its callbacks, like a link that has ended.
  void forget() { callbacks_ = {}; }
  void receive(std::uint8_t kind, std::span<const std::byte> body) {
    auto memory = links::frame_memory(body.size());
    std::ranges::copy(body, memory.get());
    callbacks_.on_frame({kind, std::move(memory), body.size()});
  }

 private:
  callbacks callbacks_;
  links::hello peer_;
  std::string certificate_;
  bool closed_ = false;
};

/// The next frame of an input.
struct scripted_frame {
  explicit scripted_frame(input& from)
      : kind(static_cast<std::uint8_t>(links::link::first_user_kind + from.byte())),
        body(from.take(from.number<std::uint16_t>())) {}

  std::uint8_t kind;
  std::span<const std::byte> body;
};

/// A frame as encoded in an input; `kind` counts from the first user kind.
inline bytes framed(std::uint8_t kind, std::span<const std::byte> body) {
  bytes one;
  links::append_number(one, kind);
  links::append_number(one, static_cast<std::uint16_t>(body.size()));
  links::append(one, body);
  return one;
}

}  // namespace troupe::fuzz
