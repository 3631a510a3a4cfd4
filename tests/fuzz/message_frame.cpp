// The bodies of frames on data links, as messages and as failures: a message that has been read must be written so that
// it is read as the same again, and no blob may lie outside the body.

#include "protocol/message_frame.hpp"

#include "tests/fuzz/actors.hpp"
#include "tests/fuzz/seed_messages.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/protocol/samples.hpp"

namespace troupe::fuzz::message_frame_target {

/// Returns memory of exactly the body's size, aligned like a link's, so that a sanitizer detects reads past it.
msg::blob body_of(std::span<const std::byte> all) {
  constexpr std::align_val_t alignment{64};
  auto* memory = static_cast<std::byte*>(::operator new(std::max<std::size_t>(all.size(), 1), alignment));
  std::ranges::copy(all, memory);
  std::shared_ptr<std::byte> owner(memory, [](std::byte* one) { ::operator delete (one, std::align_val_t{64}); });
  return {owner, memory, all.size()};
}

msg::lookup lookup_of(const msg::blob& bags) {
  msg::lookup made;
  made.tables.push_back({5, bags, {}, {}});
  return made;
}

/// Reads a body as the first frame of a link, and as one after a lookup.
void read_among_others(const msg::blob& body) {
  const msg::blob bags = msg::blob::own(std::vector<std::int64_t>(200, 3));
  for (const bool is_first : {true, false}) {
    protocol::kept_blobs kept;
    if (!is_first) must(kept.keep(1, bags), "a blob cannot be kept");
    const auto read = protocol::from_frame(body, &kept);
    must(kept.size() <= 1 + body.size() / sizeof(std::uint64_t), "more is kept than was sent");
    if (read)
      must(protocol::to_frame(read->first, read->second).has_value(), "a message is read that cannot be written");
  }
}

std::vector<std::pair<std::string, bytes>> seeds() {
  the_system();
  std::vector<std::pair<std::string, bytes>> all;
  for (const auto& [type, content] : protocol::samples_of<protocol::link_types>(protocol::nobody))
    all.emplace_back(protocol::message_name(type), joined(*protocol::to_frame({7, 2}, content)));
  all.emplace_back("failure", joined(protocol::to_failure_frame(
                                  {7, 2}, protocol::make_failure(protocol::errc::bad_index, "row 9 of 5"))));
  const msg::blob bags = msg::blob::own(std::vector<std::int64_t>(200, 3));
  msg::gradient gradient;
  gradient.tables.push_back({5, bags, {}, {}, {}});
  protocol::sent_blobs sent;
  for (const auto& [name, content] : {std::pair("lookup_kept", caf::make_message(lookup_of(bags))),
                                      std::pair("gradient_kept", caf::make_message(gradient))})
    all.emplace_back(name, joined(*protocol::to_frame({7, 2}, content, {.sent = &sent})));
  all.emplace_back("lookup_narrow",
                   joined(*protocol::to_frame({7, 2}, caf::make_message(lookup_of(bags)), {.narrows = true})));
  return all;
}

void run(std::span<const std::byte> given) {
  the_system();
  const msg::blob body = body_of(given);
  if (const auto failure = protocol::from_failure_frame(body)) {
    must(static_cast<bool>(failure->second), "an invalid failure");
    protocol::describe(failure->second);
  }
  read_among_others(body);
  const auto read = protocol::from_frame(body);
  if (!read) return;
  const auto written = protocol::to_frame(read->first, read->second);
  must(written.has_value() && protocol::head_of(read->second).has_value(), "a message is read that cannot be written");
  for (const bool narrows : {false, true}) {
    const auto again =
        protocol::from_frame(body_of(joined(*protocol::to_frame(read->first, read->second, {.narrows = narrows}))));
    must(again && again->first.request == read->first.request && again->first.actor == read->first.actor,
         "a message is written as none");
    // Compares bytes, since NaN is not equal to itself.
    must(joined(*protocol::to_frame(again->first, again->second)) == joined(*written),
         "a message is written as another one");
  }
}

}  // namespace troupe::fuzz::message_frame_target

TROUPE_FUZZ_TARGET(message_frame)
