// Both roles of the handshake, with a peer that may send anything, and that can use the token: otherwise no input would
// pass the proof.
//
// The first byte of an input chooses the role (1: acceptor), whether the peer proves the token (2), whether its
// greeting is correct (4) and whether it is welcome (8); the rest is what it sends.

#include "base/result.hpp"
#include "cluster/links/handshake_role.hpp"

#include <algorithm>

#include "cluster/links/bytes.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::handshake_target {

enum flags : std::uint8_t { as_acceptor = 1, proves = 2, greets = 4, welcome = 8 };

const std::string token = "0123456789abcdef";
const links::hello about_me = {{"purpose", "data"}, {"run", "1"}};

class peer {
 public:
  explicit peer(input from) : flags_(from.byte()), from_(from) {
    if (is(as_acceptor))
      role_ = links::acceptor_role(token, [this](const links::hello&, const std::string&) -> links::hello_reply {
        if (is(welcome)) return about_me;
        return bad_input("not today");
      });
    else
      role_ = links::connector_role(token, about_me);
  }

  void talk() {
    links::handshake_step step = role_->begin({});
    must(!step.outcome && step.want == links::prologue_bytes && step.send.size() == links::prologue_bytes,
         "no prologue");
    std::copy_n(step.send.end() - static_cast<std::ptrdiff_t>(mine_.size()), mine_.size(), mine_.begin());
    for (int turn = 0; !step.outcome; ++turn) {
      must(turn < 4, "the handshake does not end");
      must(step.want > 0 && step.want <= links::hello_bytes_max, "a request for no bytes, or for too many");
      const bytes said = next_words(turn, step.want);
      bool suspicious = false;
      for (std::size_t size = 0; size <= std::min<std::size_t>(said.size(), 64); ++size) {
        const bool now = role_->glance(std::span(said).first(size)).has_value();
        must(now || !suspicious, "more bytes dispel what fewer gave away");
        suspicious = now;
      }
      if (said.size() < step.want) return;
      step = role_->feed(said);
      must(!suspicious || (step.outcome && !*step.outcome), "a glance sees what the whole does not");
    }
    if (*step.outcome) must(is(proves) || !is(as_acceptor), "somebody without the token is let in");
  }

 private:
  bool is(flags one) const { return (flags_ & one) != 0; }

  /// The peer's next bytes: the correct ones if the flags say so, else up to `want` bytes of the input.
  bytes next_words(int turn, std::size_t want) {
    bytes said;
    if (turn == 0 && is(greets)) {
      links::append(said, std::as_bytes(std::span("TROUPE\2", 8)));
      links::append(said, theirs_);
    } else if (turn == 1 && is(proves)) {
      if (!is(as_acceptor)) said.push_back(std::byte{1});
      links::append(said, links::prove(token, is(as_acceptor) ? "connector" : "acceptor", theirs_, mine_, {}));
    } else {
      links::append(said, from_.take(want));
    }
    if (turn == 0 && said.size() == links::prologue_bytes)
      std::copy_n(said.end() - static_cast<std::ptrdiff_t>(theirs_.size()), theirs_.size(), theirs_.begin());
    return said;
  }

  std::uint8_t flags_;
  input from_;
  links::nonce mine_{};
  links::nonce theirs_{};
  std::unique_ptr<links::handshake_role> role_;
};

bytes from_text(std::uint8_t choice, const std::string& text) {
  bytes said{std::byte{choice}};
  links::append(said, std::as_bytes(std::span(text)));
  return said;
}

void append_hello(bytes& to, const links::hello& items) {
  const auto encoded = links::encode(items);
  links::append_number(to, static_cast<std::uint32_t>(encoded.size()));
  links::append(to, encoded);
}

std::vector<std::pair<std::string, bytes>> seeds() {
  bytes let_in{std::byte{as_acceptor | proves | greets | welcome}};
  append_hello(let_in, about_me);
  bytes refused = let_in;
  refused[0] = std::byte{as_acceptor | proves | greets};
  bytes greeted{std::byte{proves | greets}, std::byte{1}};
  append_hello(greeted, about_me);
  bytes without_words{std::byte{proves | greets}, std::byte{1}, {}, {}, {}, {}};
  bytes turned_down{std::byte{proves | greets}, std::byte{0}};
  links::append_number(turned_down, std::uint32_t{9});
  links::append(turned_down, std::as_bytes(std::span("not \x1b[2J now", 9)));
  bytes too_long{std::byte{as_acceptor | proves | greets}};
  links::append_number(too_long, static_cast<std::uint32_t>(links::hello_bytes_max + 1));
  bytes wrong_token = from_text(as_acceptor, std::string("TROUPE\2\0", 8) + std::string(64, 'n'));
  return {{"let_in", let_in},
          {"refused", refused},
          {"greeted", greeted},
          {"empty_hello", without_words},
          {"turned_down", turned_down},
          {"too_long", too_long},
          {"wrong_token", wrong_token},
          {"version_1", from_text(0, std::string("TROUPE\1\0", 8) + std::string(32, 'n'))},
          {"http", from_text(as_acceptor, "GET / HTTP/1.1\r\nHost: example\r\n\r\nand more that nobody reads")},
          {"tls", from_text(0, std::string("\x16\3\1\2\0\1\0\1\xfc\3\3", 11) + std::string(32, 'r'))}};
}

void run(std::span<const std::byte> given) { peer(input(given)).talk(); }

}  // namespace troupe::fuzz::handshake_target

TROUPE_FUZZ_TARGET(handshake)
