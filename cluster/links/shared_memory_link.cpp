#include "cluster/links/shared_memory_link.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "cluster/links/bytes.hpp"
#include "cluster/links/shared_memory.hpp"

namespace troupe::links {

namespace {

enum : std::uint8_t { offer_kind = 253, taken_kind, shared_kind };

std::vector<piece> one_piece(std::vector<std::byte> bytes) {
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {{kept, kept->data(), kept->size()}};
}

std::vector<std::byte> encode(const shared_memory_name& name) {
  std::vector<std::byte> bytes;
  append_number(bytes, name.process);
  append_number(bytes, name.file);
  append(bytes, name.secret);
  return bytes;
}

std::optional<shared_memory_name> decode_name(std::span<const std::byte> bytes) {
  shared_memory_name name;
  if (bytes.size() != 8 + name.secret.size()) return std::nullopt;
  name.process = number_at<std::uint32_t>(bytes, 0);
  name.file = number_at<std::uint32_t>(bytes, 4);
  std::ranges::copy(bytes.subspan(8), name.secret.begin());
  return name;
}

constexpr std::size_t announcement_bytes = 24;

std::vector<std::byte> announcement(std::uint8_t kind, const shared_chunk& chunk) {
  std::vector<std::byte> bytes(announcement_bytes);
  put_number(bytes, 0, kind);
  put_number(bytes, 4, chunk.slot);
  put_number(bytes, 8, chunk.offset);
  put_number(bytes, 16, chunk.size);
  return bytes;
}

class shared_memory_link final : public link, public std::enable_shared_from_this<shared_memory_link> {
 public:
  shared_memory_link(link_ptr below, const link_limits& limits, std::size_t offered_bytes)
      : below_(std::move(below)),
        limits_(limits),
        mine_(offered_bytes > 0 ? shared_memory_writer::make(offered_bytes) : nullptr) {}

  void start(callbacks what) override {
    callbacks_ = std::move(what);
    below_->start({.on_frame = [self = shared_from_this()](received_frame&& frame) { self->take(std::move(frame)); },
                   .on_end = [self = shared_from_this()](const fault* why) { self->callbacks_.on_end(why); }});
    if (mine_) below_->send(offer_kind, one_piece(encode(mine_->name())));
  }

  void send(std::uint8_t kind, std::vector<piece> body, bool more_follows) override {
    std::uint64_t size = 0;
    for (const piece& one : body) size += one.size;
    const bool goes_there = size >= shared_frame_bytes_min && size <= limits_.frame_bytes_max &&
                            mine_taken_.load(std::memory_order_acquire);
    const auto chunk = goes_there ? mine_->take(size) : std::nullopt;
    if (!chunk) return below_->send(kind, std::move(body), more_follows);
    std::byte* to = mine_->memory_of(*chunk);
    for (const piece& one : body) {
      if (one.size > 0) std::memcpy(to, one.data, one.size);
      to += one.size;
    }
    below_->send(shared_kind, one_piece(announcement(kind, *chunk)), more_follows);
  }

  void flush() override { below_->flush(); }
  void keep_alive() override { below_->keep_alive(); }
  void pause_reading(bool pause) override { below_->pause_reading(pause); }
  void close() override { below_->close(); }
  std::uint64_t queued_bytes() const override { return below_->queued_bytes(); }
  const hello& peer() const override { return below_->peer(); }
  const std::string& peer_certificate() const override { return below_->peer_certificate(); }
  endpoint local_address() const override { return below_->local_address(); }
  endpoint remote_address() const override { return below_->remote_address(); }

 private:
  void take(received_frame&& frame) {
    const std::span<const std::byte> body(frame.memory.get(), frame.size);
    switch (frame.kind) {
      case offer_kind:
        return take_offer(body);
      case taken_kind:
        return mine_taken_.store(mine_ != nullptr, std::memory_order_release);
      case shared_kind:
        return take_shared(body);
      default:
        return callbacks_.on_frame(std::move(frame));
    }
  }

  void take_offer(std::span<const std::byte> body) {
    const auto name = decode_name(body);
    if (!name || theirs_) return break_off("the other side offers its memory in another form, or twice");
    theirs_ = shared_memory_reader::open(*name);
    if (theirs_) below_->send(taken_kind, {});
  }

  void take_shared(std::span<const std::byte> body) {
    const bool is_whole = theirs_ && body.size() == announcement_bytes;
    received_frame frame;
    if (is_whole) {
      frame.kind = number_at<std::uint8_t>(body, 0);
      frame.size = number_at<std::uint64_t>(body, 16);
      if (frame.kind >= first_user_kind && frame.kind < offer_kind && frame.size <= limits_.frame_bytes_max)
        frame.memory =
            theirs_->read({number_at<std::uint32_t>(body, 4), number_at<std::uint64_t>(body, 8), frame.size});
    }
    if (!frame.memory) return break_off("the other side points to where none of its memory is");
    callbacks_.on_frame(std::move(frame));
  }

  void break_off(const char* why) {
    const fault fault{fault_kind::lost, why};
    below_->close();
    callbacks_.on_end(&fault);
  }

  const link_ptr below_;
  const link_limits limits_;
  const std::unique_ptr<shared_memory_writer> mine_;
  std::atomic<bool> mine_taken_ = false;

  // Used on the link's thread only.
  callbacks callbacks_;
  std::shared_ptr<shared_memory_reader> theirs_;
};

}  // namespace

link_ptr with_shared_memory(link_ptr below, const link_limits& limits, std::size_t offered_bytes) {
  return std::make_shared<shared_memory_link>(std::move(below), limits, offered_bytes);
}

}  // namespace troupe::links
