#include "protocol/message_frame.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "protocol/errors.hpp"
#include "protocol/field_bytes.hpp"
#include "protocol/message_types.hpp"
#include "protocol/narrow_words.hpp"

namespace troupe::protocol {

namespace {

constexpr std::size_t head_bytes = 24;
constexpr std::size_t alignment = 64;

constexpr std::size_t gap_after(std::size_t size) { return (alignment - size % alignment) % alignment; }

/// Calls `use` with a null T*, where T is the type with number `id`. Returns false if that type does not use data
/// links.
template <class F>
bool for_link_type(caf::type_id_t id, F use) {
  return [&]<class... T>(boost::mp11::mp_list<T...>) {
    return ((caf::type_id_v<T> == id && (use(static_cast<T*>(nullptr)), true)) || ...);
  }(link_types());
}

/// Collects blobs without copying host memory.
class frame_writer : public field_saver<frame_writer> {
 public:
  bool bulk(const msg::blob& x) {
    blobs.push_back(x.on_host());
    return true;
  }

  std::vector<msg::blob> blobs;
};

class frame_reader : public field_loader<frame_reader> {
 public:
  frame_reader(std::span<const std::byte> fields, std::span<const msg::blob> blobs)
      : field_loader(fields), blobs_(blobs) {}

  bool bulk(msg::blob& x) {
    if (blobs_.empty()) return false;
    x = blobs_.front();
    blobs_ = blobs_.subspan(1);
    return true;
  }
  std::size_t parts_left() const { return blobs_.size(); }

 private:
  std::span<const msg::blob> blobs_;
};

struct body_head {
  std::uint64_t request = 0;
  std::uint32_t actor = 0;
  std::uint16_t type = 0;
  std::uint16_t zero = 0;
  std::uint32_t fields = 0;
  std::uint32_t entries = 0;
};
static_assert(sizeof(body_head) == head_bytes);

constexpr int kind_shift = 62;
constexpr int width_shift = 58;
constexpr std::uint64_t width_mask = 15;
constexpr std::uint64_t value_mask = (std::uint64_t{1} << width_shift) - 1;

/// Encodes entries as the 64-bit words of a body.
std::vector<std::uint64_t> description_of(std::span<const blob_entry> entries, std::span<const msg::blob> blobs) {
  using kind = blob_entry::kind;
  std::vector<std::uint64_t> words;
  words.reserve(2 * entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto [how, number, width] = entries[i];
    const bool has_bytes = how == kind::bytes || how == kind::kept_bytes;
    words.push_back(static_cast<std::uint64_t>(how) << kind_shift | std::uint64_t{width} << width_shift |
                    (has_bytes ? blobs[i].size() : number));
    if (how == kind::kept_bytes) words.push_back(number);
  }
  return words;
}

/// Returns an upper bound of a body's bytes.
std::uint64_t bytes_at_most(const frame_writer& from) {
  std::uint64_t bytes = head_bytes + from.fields.size();
  for (const msg::blob& bulk : from.blobs) bytes += bulk.size() + alignment + 2 * sizeof(std::uint64_t);
  return bytes;
}

/// The parts of a body: head, entries and fields in one piece of memory, then padding and blob alternately.
std::vector<msg::blob> assemble(const envelope& head, caf::type_id_t type, frame_writer&& from,
                                const std::vector<blob_entry>& how) {
  using kind = blob_entry::kind;
  static const auto zeros = std::make_shared<const std::array<std::byte, alignment>>();
  const std::vector<std::uint64_t> words = description_of(how, from.blobs);
  const body_head fixed{head.request,
                        head.actor,
                        type,
                        0,
                        static_cast<std::uint32_t>(from.fields.size()),
                        static_cast<std::uint32_t>(words.size())};
  const std::size_t fields_at = head_bytes + words.size() * sizeof(std::uint64_t);
  std::vector<std::byte> front(fields_at + from.fields.size());
  std::memcpy(front.data(), &fixed, head_bytes);
  std::ranges::copy(std::as_bytes(std::span(words)), front.begin() + head_bytes);
  std::memcpy(front.data() + fields_at, from.fields.data(), from.fields.size());
  std::size_t total = front.size();
  std::vector<msg::blob> parts;
  parts.reserve(1 + 2 * from.blobs.size());
  parts.push_back(msg::blob::own(std::move(front)));
  for (std::size_t i = 0; i < from.blobs.size(); ++i) {
    msg::blob& bulk = from.blobs[i];
    if (how[i].how == kind::kept) {
      parts.push_back(bulk.part(0, 0));
      continue;
    }
    if (bulk.empty()) continue;
    if (how[i].width != 0) {
      parts.push_back(bulk.part(0, 0));  // `sent_blobs` counts its owner as alive until the frame is sent
      bulk = narrowed(bulk, how[i].width);
    }
    if (const std::size_t gap = gap_after(total)) parts.emplace_back(zeros, zeros->data(), gap);
    total += gap_after(total) + bulk.size();
    parts.push_back(std::move(bulk));
  }
  return parts;
}

/// Sets the widths of the blobs that are sent.
void narrow(std::vector<blob_entry>& how, std::span<const msg::blob> blobs) {
  using kind = blob_entry::kind;
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    if (how[i].how == kind::kept) continue;
    const std::size_t width = width_of(blobs[i]);
    if (is_narrow(width)) how[i].width = width;
  }
}

caf::error malformed(const char* what) {
  return make_failure(errc::malformed, std::string("a frame that is not a message: ") + what);
}

struct disassembled {
  body_head fixed;
  std::span<const std::byte> fields;
  std::vector<msg::blob> blobs;
};

/// Reads a body's entries, and the blobs that they describe.
class blob_reader {
 public:
  /// `first`: the offset of the first blob, which may follow a gap.
  blob_reader(const msg::blob& body, std::size_t entries, std::size_t first, kept_blobs* kept)
      : body_(body), entries_(entries), at_(first), kept_(kept) {}

  caf::error read(std::vector<msg::blob>& blobs) {
    using kind = blob_entry::kind;
    while (next_ < entries_) {
      const std::uint64_t word = next_word();
      const auto how = static_cast<kind>(word >> kind_shift);
      const std::size_t width = word >> width_shift & width_mask;
      const std::uint64_t value = word & value_mask;
      if (how != kind::bytes && kept_ == nullptr) return malformed("it refers to blobs that are kept");
      if (width != 0 && !(is_narrow(width) && (how == kind::bytes || how == kind::kept_bytes)))
        return malformed("words of an unknown width");
      if (how == kind::forgotten) {
        if (!kept_->forget(value)) return malformed("it drops a blob that is not kept");
        continue;
      }
      msg::blob& to = blobs.emplace_back();
      if (how == kind::kept) {
        if (!kept_->take(value, to)) return malformed("it has a blob that is not kept");
        continue;
      }
      if (width == 0 ? !take_bytes(value, to) : !take_narrow_words(value, width, to))
        return malformed(width == 0 ? "shorter than its blobs" : "shorter than its words, or ends within one");
      if (how == kind::bytes) continue;
      if (next_ == entries_) return malformed("a blob to be kept without a number");
      if (!kept_->keep(next_word(), to)) return malformed("it has a blob kept twice, or too many");
    }
    return at_ == body_.size() ? caf::error() : malformed("longer than its parts");
  }

 private:
  std::uint64_t next_word() {
    std::uint64_t word = 0;
    std::memcpy(&word, body_.data() + head_bytes + next_++ * sizeof word, sizeof word);
    return word;
  }

  bool take_bytes(std::uint64_t size, msg::blob& to) {
    if (size == 0) return true;
    at_ += std::min(gap_after(at_), body_.size() - at_);
    if (size > body_.size() - at_) return false;
    to = body_.part(at_, size);
    at_ += size;
    return true;
  }

  bool take_narrow_words(std::uint64_t size, std::size_t width, msg::blob& to) {
    constexpr std::size_t word_bytes = sizeof(std::uint64_t);
    msg::blob narrow;
    if (size > msg::blob::max_bytes || size % word_bytes != 0) return false;
    if (!take_bytes(size / word_bytes * width, narrow)) return false;
    to = widened(narrow, width);
    return true;
  }

  const msg::blob& body_;
  const std::size_t entries_;
  std::size_t next_ = 0;
  std::size_t at_;
  kept_blobs* const kept_;
};

caf::expected<disassembled> disassemble(const msg::blob& body, kept_blobs* kept) {
  disassembled parts;
  if (body.size() < head_bytes) return malformed("shorter than its head");
  std::memcpy(&parts.fixed, body.data(), head_bytes);
  std::size_t at = head_bytes + std::size_t{parts.fixed.entries} * sizeof(std::uint64_t);
  if (at > body.size() || body.size() - at < parts.fixed.fields) return malformed("shorter than its fields");
  parts.fields = {body.data() + at, parts.fixed.fields};
  at += parts.fixed.fields;
  parts.blobs.reserve(parts.fixed.entries);
  if (auto error = blob_reader(body, parts.fixed.entries, at, kept).read(parts.blobs)) return error;
  return parts;
}

}  // namespace

std::optional<std::vector<msg::blob>> to_frame(const envelope& head, const caf::message& content,
                                               const frame_rules& rules) {
  if (content.size() != 1) return std::nullopt;
  const caf::type_id_t type = content.type_at(0);
  frame_writer writer;
  const bool known = for_link_type(type, [&]<class T>(T*) { (void)writer.apply(content.get_as<T>(0)); });
  if (!known) return std::nullopt;
  const bool come_again = traits_by_id(type).blobs_return && bytes_at_most(writer) <= rules.bytes_max;
  auto how = rules.sent != nullptr ? rules.sent->enter(writer.blobs, come_again)
                                   : std::vector<blob_entry>(writer.blobs.size());
  if (rules.narrows) narrow(how, writer.blobs);
  return assemble(head, type, std::move(writer), how);
}

caf::expected<std::pair<envelope, caf::message>> from_frame(const msg::blob& body, kept_blobs* kept) {
  auto parts = disassemble(body, kept);
  if (!parts) return parts.error();
  frame_reader reader(parts->fields, parts->blobs);
  caf::message content;
  bool whole = false;
  const bool known = for_link_type(parts->fixed.type, [&]<class T>(T*) {
    T message;
    whole = reader.apply(message) && reader.is_done();
    if (whole) content = caf::make_message(std::move(message));
  });
  if (!known) return malformed("of a type that does not travel so");
  if (!whole) return malformed("its fields are not those of its type");
  return std::pair(envelope{parts->fixed.request, parts->fixed.actor}, std::move(content));
}

std::optional<std::pair<caf::type_id_t, msg::header>> head_of(const caf::message& content) {
  if (content.size() != 1) return std::nullopt;
  std::optional<std::pair<caf::type_id_t, msg::header>> head;
  const caf::type_id_t type = content.type_at(0);
  for_link_type(type, [&]<class T>(T*) { head.emplace(type, content.get_as<T>(0).head); });
  return head;
}

std::vector<msg::blob> to_failure_frame(const envelope& head, const caf::error& failure) {
  errc code = errc::exception;
  if (failure.category() == caf::type_id_v<errc>)
    code = static_cast<errc>(failure.code());
  else if (is_secondary(failure))
    code = errc::peer_failed;
  frame_writer writer;
  writer.value(static_cast<std::uint8_t>(code));
  writer.value(caf::string_view(describe(failure)));
  return assemble(head, caf::type_id_v<errc>, std::move(writer), {});
}

caf::expected<std::pair<envelope, caf::error>> from_failure_frame(const msg::blob& body) {
  const auto parts = disassemble(body, nullptr);
  if (!parts) return parts.error();
  frame_reader reader(parts->fields, parts->blobs);
  std::uint8_t number = 0;
  std::string words;
  errc code = errc::none;
  if (parts->fixed.type != caf::type_id_v<errc> || !reader.value(number) || !reader.value(words) || !reader.is_done() ||
      !from_integer(number, code) || code == errc::none)
    return malformed("an invalid failure");
  return std::pair(envelope{parts->fixed.request, parts->fixed.actor}, make_failure(code, std::move(words)));
}

}  // namespace troupe::protocol
