#include "cluster/links/handshake_role.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "cluster/links/bytes.hpp"

namespace troupe::links {

namespace {

constexpr std::string_view greeting_word = "TROUPE";
constexpr std::uint16_t version = 4;
constexpr std::size_t nonce_at = greeting_word.size() + sizeof(version);
constexpr std::size_t length_bytes = sizeof(std::uint32_t);

enum answer : std::uint8_t { no = 0, yes = 1 };

static_assert(prologue_bytes == nonce_at + std::tuple_size_v<nonce>);

std::vector<std::byte> prologue(const nonce& mine) {
  std::vector<std::byte> bytes;
  append(bytes, std::as_bytes(std::span(greeting_word)));
  append_number(bytes, version);
  append(bytes, mine);
  return bytes;
}

template <class Array>
Array array_at(std::span<const std::byte> bytes, std::size_t offset) {
  Array array;
  std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), array.size(), array.begin());
  return array;
}

void append_text(std::vector<std::byte>& to, std::span<const std::byte> text) {
  append_number(to, static_cast<std::uint32_t>(text.size()));
  append(to, text);
}

handshake_step failed(fault_kind code, std::string text, std::vector<std::byte> last_bytes = {}) {
  return {.send = std::move(last_bytes), .outcome = failure(code, std::move(text))};
}

handshake_step not_of_ours(const std::string& what) {
  return failed(fault_kind::no_peer, "broke the rules of the handshake: " + what);
}

handshake_step continues(std::size_t want, std::vector<std::byte> send = {}) {
  return {.send = std::move(send), .outcome = std::nullopt, .want = want};
}

/// Reads the length of the next item; null if it is over the limit.
std::optional<std::size_t> text_length(std::span<const std::byte> bytes) {
  const std::size_t length = number_at<std::uint32_t>(bytes, bytes.size() - length_bytes);
  if (length > hello_bytes_max) return std::nullopt;
  return length;
}

handshake_step too_long(std::span<const std::byte> bytes) {
  return not_of_ours(fmt::format("it announced {} bytes about itself, the limit is {}",
                                 number_at<std::uint32_t>(bytes, bytes.size() - length_bytes), hello_bytes_max));
}

handshake_step other_token(const channel& over) {
  fault why = other_token_fault(over);
  return failed(why.kind, std::move(why.message));
}

// In both roles `state` says what the next bytes are.

class connector final : public handshake_role {
 public:
  connector(const std::string& token, const hello& about_me) : token_(token), hello_(encode(about_me)) {}

  handshake_step begin(const channel& over) override {
    over_ = over;
    if (hello_.size() > hello_bytes_max)
      return failed(fault_kind::input, fmt::format("cannot be greeted: this side's hello has {} bytes, the limit is {}",
                                                   hello_.size(), hello_bytes_max));
    return continues(prologue_bytes, prologue(mine_));
  }

  std::optional<fault> glance(std::span<const std::byte> first) const override {
    if (state_ == state::prologue) return check_prologue(first);
    if (state_ == state::verdict && !first.empty() && first.front() == std::byte{no}) return other_token_fault(over_);
    return std::nullopt;
  }

  handshake_step feed(std::span<const std::byte> bytes) override {
    if (auto wrong = glance(bytes)) return failed(wrong->kind, std::move(wrong->message));
    switch (std::exchange(state_, next(state_))) {
      case state::prologue: {
        theirs_ = array_at<nonce>(bytes, nonce_at);
        std::vector<std::byte> proof;
        append(proof, prove(token_, "connector", mine_, theirs_, over_.binding));
        return continues(1 + std::tuple_size_v<token_proof>, std::move(proof));
      }
      case state::verdict: {
        if (bytes.front() != std::byte{yes} ||
            !same_proof(array_at<token_proof>(bytes, 1), prove(token_, "acceptor", theirs_, mine_, over_.binding)))
          return other_token(over_);
        std::vector<std::byte> text;
        append_text(text, hello_);
        return continues(1 + length_bytes, std::move(text));
      }
      case state::length: {
        welcome_ = bytes.front() == std::byte{yes};
        const auto length = text_length(bytes);
        return !length ? too_long(bytes) : *length == 0 ? feed({}) : continues(*length);
      }
      case state::text:
        break;
    }
    if (!welcome_) return failed(fault_kind::refused, "refused: " + shown(bytes));
    auto theirs = decode_hello(bytes);
    return theirs ? handshake_step{.send = {}, .outcome = std::move(*theirs)} : not_of_ours("its hello is malformed");
  }

 private:
  enum class state { prologue, verdict, length, text };

  static state next(state now) { return now == state::text ? now : static_cast<state>(static_cast<int>(now) + 1); }

  const std::string token_;
  const std::vector<std::byte> hello_;
  const nonce mine_ = random_nonce();
  nonce theirs_{};
  channel over_;
  state state_ = state::prologue;
  bool welcome_ = false;
};

class acceptor final : public handshake_role {
 public:
  acceptor(const std::string& token, hello_authorizer check_hello) : token_(token), check_(std::move(check_hello)) {}

  handshake_step begin(const channel& over) override {
    over_ = over;
    return continues(prologue_bytes, prologue(mine_));
  }

  std::optional<fault> glance(std::span<const std::byte> first) const override {
    return state_ == state::prologue ? check_prologue(first) : std::nullopt;
  }

  handshake_step feed(std::span<const std::byte> bytes) override {
    if (auto wrong = glance(bytes)) return failed(wrong->kind, std::move(wrong->message));
    switch (std::exchange(state_, next(state_))) {
      case state::prologue:
        theirs_ = array_at<nonce>(bytes, nonce_at);
        return continues(std::tuple_size_v<token_proof>);
      case state::proof: {
        if (!same_proof(array_at<token_proof>(bytes, 0), prove(token_, "connector", theirs_, mine_, over_.binding))) {
          handshake_step step = other_token(over_);
          step.send.push_back(std::byte{no});
          return step;
        }
        std::vector<std::byte> verdict{std::byte{yes}};
        append(verdict, prove(token_, "acceptor", mine_, theirs_, over_.binding));
        return continues(length_bytes, std::move(verdict));
      }
      case state::length: {
        const auto length = text_length(bytes);
        return !length ? too_long(bytes) : *length == 0 ? feed({}) : continues(*length);
      }
      case state::text:
        break;
    }
    auto theirs = decode_hello(bytes);
    return theirs ? answer_to(std::move(*theirs)) : not_of_ours("its hello is malformed");
  }

 private:
  enum class state { prologue, proof, length, text };

  static state next(state now) { return now == state::text ? now : static_cast<state>(static_cast<int>(now) + 1); }

  handshake_step answer_to(hello&& theirs) {
    const hello_reply mine = check_(theirs, over_.peer_certificate);
    std::vector<std::byte> text = mine ? encode(*mine) : std::vector<std::byte>{};
    std::string refusal = mine ? std::string{} : mine.error().message;
    if (text.size() > hello_bytes_max)
      refusal = fmt::format("this side's hello has {} bytes, the limit is {}", text.size(), hello_bytes_max);
    const bool welcome = mine.has_value() && refusal.empty();
    std::vector<std::byte> said{static_cast<std::byte>(welcome ? yes : no)};
    if (welcome) {
      append_text(said, text);
      return {.send = std::move(said), .outcome = std::move(theirs)};
    }
    refusal.resize(std::min(refusal.size(), hello_bytes_max));
    append_text(said, std::as_bytes(std::span(refusal)));
    return failed(fault_kind::refused, "was refused: " + refusal, std::move(said));
  }

  const std::string token_;
  const hello_authorizer check_;
  const nonce mine_ = random_nonce();
  nonce theirs_{};
  channel over_;
  state state_ = state::prologue;
};

/// Returns whether the bytes begin a TLS record of type alert or handshake, of any version.
bool is_tls(std::span<const std::byte> first) {
  constexpr std::byte alert{0x15};
  constexpr std::byte client_hello{0x16};
  constexpr std::byte major{0x03};
  return (first[0] == alert || first[0] == client_hello) && (first.size() < 2 || first[1] == major);
}

}  // namespace

std::unique_ptr<handshake_role> connector_role(const std::string& token, const hello& mine) {
  return std::make_unique<connector>(token, mine);
}

std::unique_ptr<handshake_role> acceptor_role(const std::string& token, hello_authorizer check_hello) {
  return std::make_unique<acceptor>(token, std::move(check_hello));
}

fault other_token_fault(const channel& over) {
  const char* or_else = over.binding == channel_binding{} ? "" : ", or a proxy between the two ends TLS";
  return {fault_kind::not_trusted,
          fmt::format("has another token{}: give both sides the same one, with --token-file or TROUPE_TOKEN", or_else)};
}

std::optional<fault> check_prologue(std::span<const std::byte> first) {
  if (first.empty()) return std::nullopt;
  const auto word = std::as_bytes(std::span(greeting_word));
  const std::size_t common = std::min(first.size(), word.size());
  if (!std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(common), word.begin())) {
    if (is_tls(first))
      return fault{fault_kind::no_peer, "uses TLS, this side does not: give --insecure to both or to none"};
    return fault{fault_kind::no_peer, fmt::format("speaks no Troupe; it said \"{}\"", shown(first))};
  }
  if (first.size() < nonce_at) return std::nullopt;
  const auto theirs = number_at<std::uint16_t>(first, greeting_word.size());
  if (theirs == version) return std::nullopt;
  return fault{
      fault_kind::no_peer,
      fmt::format("speaks version {} of the handshake, this side version {}: use the same release of troupe on both",
                  theirs, version)};
}

std::string shown(std::span<const std::byte> text) {
  constexpr std::size_t length_max = 1000;
  return one_line({reinterpret_cast<const char*>(text.data()), text.size()}, length_max);
}

}  // namespace troupe::links
