// Trace files: for any content, reading them and every query end, and need little memory. An input describes how to
// make files of up to four processes, so that most of its bytes decide about records, not about the parts that all
// files share.

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/analysis/check.hpp"
#include "trace/analysis/critical_path.hpp"
#include "trace/analysis/diff.hpp"
#include "trace/analysis/exports.hpp"
#include "trace/analysis/summary.hpp"
#include "trace/analysis/why.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::fuzz::trace_reader_target {

using namespace analysis;

/// The parts of files in an input; each begins with one of these.
enum class part : std::uint8_t {
  end,       ///< ends this file
  metadata,  ///< length (2), text
  head,      ///< offset (2), number (8): overwrites earlier bytes
  actor,  ///< number, state, name (4), step, message: sender, sequence; 0 or 1: since when; requests: sender, sequence
  chunk,  ///< number, moment (2), number of records; then the records as `record_of` reads them
  raw,    ///< length (2), bytes: a chunk's raw content
  contents,  ///< length (2), bytes: message contents
  block,     ///< kind, claimed size, length (2), bytes, already packed
  cut,       ///< by how many bytes (2) the file is truncated
  count
};

constexpr std::size_t files_max = 4;
constexpr std::uint64_t ticks_begin = 1'000'000;
constexpr std::array<const char*, 12> types = {"lookup",  "rows",         "gradient",   "reduce",
                                               "reduced", "train",        "trained",    "progress",
                                               "status",  "bucket_share", "bucket_sum", "instantiate"};
constexpr std::uint16_t first_type = 200;

std::string usual_metadata(std::size_t host) {
  std::string list;
  for (std::size_t i = 0; i < types.size(); ++i)
    list += fmt::format("{}[{},\"{}\",{}]", i == 0 ? "" : ",", first_type + i, types[i], i == 0 || i == 3 ? 1 : 0);
  return fmt::format(R"({{"boot":"boot {}","host":"h","mode":"full","ticks_per_second":1e9,"types":[{}],)"
                     R"("job":{{"consistency":"sync","accumulate":"1"}}}})",
                     host, list);
}

std::uint16_t actor_of(std::uint8_t one) {
  constexpr std::uint8_t small = 0xf0;
  return one < small ? one % 8 : static_cast<std::uint16_t>(one << 8 | one);
}

std::uint64_t id_of(input& from) {
  const std::uint64_t sender = actor_of(from.byte());
  return sender << 48 | from.count();
}

std::uint64_t moment_of(input& from) { return ticks_begin + from.number<std::uint16_t>() * std::uint64_t{16}; }

trace::record record_of(input& from) {
  const auto what = static_cast<trace::kind>(from.below(20));
  const std::uint8_t flags = from.byte();
  const std::uint16_t actor = actor_of(from.byte());
  const std::uint64_t type = what == trace::kind::handled ? first_type + from.below(types.size() + 1) : from.below(16);
  trace::record made;
  made.begin = moment_of(from);
  made.sent = (flags & 0x80) != 0 ? from.number<std::uint64_t>() : moment_of(from);
  made.id = id_of(from);
  made.cause = id_of(from);
  made.busy48_type16 = trace::record::pack(from.count() * 16, type);
  made.queued48_actor16 = trace::record::pack(from.count() * 16, actor);
  made.step48_aux16 = trace::record::pack(from.count(), from.byte());
  made.bytes32_kind8_flags8_stamp16 = trace::pack_kind(from.count(), what, flags & 0x7f);
  return made;
}

template <class T>
void put(std::string& to, std::size_t at, T number) {
  if (at + sizeof number <= to.size()) std::memcpy(to.data() + at, &number, sizeof number);
}

class file_maker {
 public:
  explicit file_maker(std::size_t place) : place_(place) {}

  std::string make(input& from) {
    is_log_ = from.below(2) == 1;
    std::string metadata = usual_metadata(from.below(2));
    std::vector<std::pair<std::size_t, std::uint64_t>> changes;
    std::size_t cut = 0;
    while (!from.empty()) {
      const auto next = static_cast<part>(from.below(static_cast<std::uint32_t>(part::count)));
      if (next == part::end) break;
      if (next == part::metadata) metadata = text(from);
      if (next == part::head) {
        const std::size_t at = from.number<std::uint16_t>() % sizeof(trace::file_head);
        changes.emplace_back(at, from.number<std::uint64_t>());
      }
      if (next == part::actor) add_actor(from);
      if (next == part::chunk) add_chunk(from);
      if (next == part::raw) add_bytes(trace::block_kind::chunks, padded(text(from), trace::chunk_bytes));
      if (next == part::contents) add_bytes(trace::block_kind::contents, text(from));
      if (next == part::block) add_claim(from);
      if (next == part::cut) cut = from.number<std::uint16_t>();
    }
    std::string made = head(metadata.substr(0, trace::metadata_bytes));
    for (const auto& [at, number] : changes) put(made, at, number);
    if (is_log_) add_bytes(trace::block_kind::board, board_);
    if (!is_log_) made.append(padded(board_, trace::chunk_bytes));
    made += rest_;
    made.resize(made.size() - std::min(cut, made.size()));
    return made;
  }

 private:
  static std::string text(input& from) {
    const auto bytes = from.take(from.number<std::uint16_t>());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  static std::string padded(std::string bytes, std::size_t unit) {
    bytes.resize((bytes.size() + unit - 1) / unit * unit);
    return bytes;
  }

  std::string head(const std::string& metadata) const {
    trace::file_head made{};
    made.magic = is_log_ ? trace::log_magic : trace::ring_magic;
    made.version = trace::format_version;
    made.head_size = trace::head_bytes;
    made.metadata_size = trace::metadata_bytes;
    made.board_entries = is_log_ ? 0 : static_cast<std::uint32_t>(board_.size() / trace::board_entry_bytes);
    made.chunk_size = trace::chunk_bytes;
    made.record_size = sizeof(trace::record);
    made.chunks = is_log_ ? 0 : rest_.size() / trace::chunk_bytes;
    made.process = place_ + 1;
    made.begin = {ticks_begin, ticks_begin, ticks_begin};
    made.run = 1;
    made.node = static_cast<std::uint32_t>(place_);
    made.next_chunk = chunks_;
    made.metadata_length = static_cast<std::uint32_t>(metadata.size());
    std::string bytes(trace::head_bytes + trace::metadata_bytes, '\0');
    std::memcpy(bytes.data(), &made, sizeof made);
    metadata.copy(bytes.data() + trace::head_bytes, metadata.size());
    return bytes;
  }

  void add_actor(input& from) {
    trace::board_entry made{};
    made.actor = actor_of(from.byte());
    made.state = from.below(4);
    constexpr std::array<const char*, 6> roles = {"trainer", "server", "allreduce", "master", "node", ""};
    const std::string name = fmt::format("{} {}", roles[from.below(roles.size())], from.below(4));
    name.copy(made.name.data(), made.name.size() - 1);
    made.step = from.count();
    made.message = id_of(from);
    made.message_begin = (from.byte() & 1) == 0 ? 0 : moment_of(from);
    made.message_type = first_type + from.below(types.size());
    made.step_begin = (from.byte() & 1) == 0 ? 0 : moment_of(from);
    made.last_sent = from.count();
    made.open_more = from.byte();
    const std::size_t requests = from.below(trace::open_requests_max);
    for (std::size_t i = 0; i < requests; ++i) {
      made.open[i].id = id_of(from);
      made.open[i].since = moment_of(from);
      made.open[i].type16_peer16 =
          (first_type + from.below(types.size())) | static_cast<std::uint32_t>(actor_of(from.byte())) << 16;
    }
    std::string bytes(trace::board_entry_bytes, '\0');
    std::memcpy(bytes.data(), &made, sizeof made);
    board_ += bytes;
  }

  void add_chunk(input& from) {
    const std::uint64_t number = from.count();
    std::string bytes(trace::chunk_bytes, '\0');
    put(bytes, offsetof(trace::chunk_head, number), number);
    const std::uint64_t moment = moment_of(from);
    put(bytes, offsetof(trace::chunk_head, begin),
        trace::clock_sample{moment, static_cast<std::int64_t>(moment), static_cast<std::int64_t>(moment)});
    const std::size_t records = from.below(trace::records_per_chunk + 1);
    for (std::size_t i = 1; i <= records && !from.empty(); ++i) {
      trace::record made = record_of(from);
      made.bytes32_kind8_flags8_stamp16 |= std::uint64_t{trace::stamp_of(number)} << 48;
      put(bytes, i * sizeof made, made);
    }
    ++chunks_;
    add_bytes(trace::block_kind::chunks, bytes);
  }

  void add_bytes(trace::block_kind what, const std::string& bytes) {
    if (!is_log_) {
      rest_ += padded(bytes, trace::chunk_bytes);
      return;
    }
    std::string packed(ZSTD_compressBound(bytes.size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 1));
    add_block(what, bytes.size(), packed);
  }

  void add_claim(input& from) {
    const auto what = static_cast<trace::block_kind>(from.byte());
    const std::uint64_t size = from.count();
    add_block(what, size, text(from));
  }

  void add_block(trace::block_kind what, std::uint64_t size, const std::string& packed) {
    const trace::block_head head{trace::block_magic, what, packed.size(), size,
                                 XXH3_64bits(packed.data(), packed.size())};
    rest_.append(reinterpret_cast<const char*>(&head), sizeof head).append(packed);
  }

  const std::size_t place_;
  bool is_log_ = false;
  std::string board_;
  std::string rest_;
  std::uint64_t chunks_ = 0;
};

void ask_everything(const trace::recording& run) {
  constexpr std::size_t limit = 5;
  must(std::ranges::is_sorted(run.events, {}, &trace::event::begin), "events are in no order");
  const analysis::causality index(run);
  const analysis::summary total = analysis::summarize(index);
  analysis::summary_text(index, total, limit);
  analysis::summary_json(index, total);
  if (const auto path = analysis::report_critical_path(index, std::nullopt)) {
    analysis::report_text(run, *path, limit);
    analysis::report_json(run, *path);
  }
  for (std::size_t i = 0; i < run.events.size() && i < limit; ++i) {
    const std::uint64_t id = run.events[run.events.size() - 1 - i].id;
    if (index.handled(id) == nullptr) continue;
    const analysis::cause_chain chain = analysis::find_causes(index, id);
    analysis::causes_text(index, chain, limit);
    analysis::causes_json(index, chain);
    const analysis::influence cone = analysis::find_influence(index, id);
    analysis::influence_text(index, cone, limit);
    analysis::influence_json(index, cone, limit);
  }
  const analysis::blocked_report blocked = analysis::find_blocked(run);
  analysis::to_text(run, blocked);
  analysis::to_json(run, blocked);
  analysis::find_blocked(run, run);
  const analysis::check_report checked = analysis::check(run);
  analysis::to_text(checked);
  analysis::to_json(checked);
  std::ostringstream exported;
  analysis::write_timeline(run, exported);
  analysis::write_shiviz(run, exported);
  analysis::write_csv(run, exported);
  const analysis::diff_options any{.any_order = true, .timing = 0};
  const analysis::diff none = analysis::compare(run, run, any);
  must(none.same(), "a recording differs from itself");
  analysis::diff_text(run, run, none, limit);
  analysis::diff_json(run, run, none);
}

/// The inverse of reading an input: writes the bytes of a seed.
class seed {
 public:
  seed& byte(std::size_t x) {
    all_.push_back(static_cast<std::byte>(x));
    return *this;
  }
  seed& word(std::size_t x) { return byte(x & 0xff).byte(x >> 8); }
  seed& text(const std::string& x) {
    word(x.size());
    for (const char c : x) byte(static_cast<unsigned char>(c));
    return *this;
  }
  seed& begin(part x) { return byte(static_cast<std::size_t>(x)); }
  /// A handled message; ids are sender and sequence.
  seed& handled(std::size_t flags, std::size_t actor, std::size_t type, std::size_t when, std::array<std::size_t, 2> id,
                std::array<std::size_t, 2> cause, std::size_t step) {
    record(trace::kind::handled, flags, actor, type, when, id, cause, step);
    return *this;
  }
  seed& record(trace::kind what, std::size_t flags, std::size_t actor, std::size_t type, std::size_t when,
               std::array<std::size_t, 2> id, std::array<std::size_t, 2> cause, std::size_t step) {
    byte(static_cast<std::size_t>(what)).byte(flags).byte(actor).byte(type).word(when).word(when - 5);
    return byte(id[0]).byte(id[1]).byte(cause[0]).byte(cause[1]).byte(3).byte(2).byte(step).byte(0).byte(100);
  }
  seed& actor(std::size_t number, std::size_t role, std::size_t rank) {
    return begin(part::actor)
        .byte(number)
        .byte(1)
        .byte(role)
        .byte(rank)
        .byte(2)
        .byte(0)
        .byte(0)
        .byte(0)
        .byte(0)
        .byte(0)
        .byte(9)
        .byte(0)
        .byte(0);
  }
  bytes done() const { return all_; }

 private:
  bytes all_;
};

/// Two steps of a server (2) and a trainer (3).
void add_run(seed& to) {
  to.actor(2, 1, 0).actor(3, 0, 0);
  to.begin(part::chunk).byte(1).word(0).byte(10);
  to.handled(flag::request, 2, 0, 10, {3, 1}, {0, 0}, 1);
  to.handled(flag::answer, 3, 1, 20, {2, 1}, {3, 1}, 1);
  to.record(trace::kind::range, 0, 3, 1, 20, {2, 1}, {0, 0}, 1);
  to.handled(0, 2, 2, 30, {3, 2}, {2, 1}, 1);
  to.record(trace::kind::range, 0, 2, 5, 30, {3, 2}, {0, 0}, 1);
  to.record(trace::kind::step, 0, 3, 0, 20, {2, 1}, {0, 0}, 1);
  to.handled(flag::request | flag::parked, 2, 0, 28, {3, 3}, {2, 1}, 2);
  to.record(trace::kind::released, 0, 2, 0, 33, {2, 2}, {3, 2}, 2);
  to.handled(flag::answer, 3, 1, 40, {2, 2}, {3, 3}, 2);
  to.record(trace::kind::step, 0, 3, 0, 40, {2, 2}, {0, 0}, 2);
}

std::vector<std::pair<std::string, bytes>> seeds() {
  seed ring, log, hosts, claim, foreign;
  add_run(ring.byte(0).byte(0));
  std::string contents;
  trace::write_content(
      {std::uint64_t{3} << 48 | 2, 2, 202, 7, {{"tables[0].grad", "float32", 2, 1, 9, "12345678"}}, "fields"},
      contents);
  add_run(log.byte(1).byte(0));
  log.begin(part::contents).text(contents).begin(part::cut).word(3);
  for (const std::size_t host : {0, 1}) {
    hosts.byte(host).byte(host);
    host == 0 ? hosts.actor(2, 1, 0) : hosts.actor(3, 0, 0);
    hosts.begin(part::chunk).byte(1).word(0).byte(3);
    for (const std::size_t i : {1, 2, 3})
      hosts.handled(flag::remote, 2 + host, 0, 10 * i, {3 - host, i}, {2 + host, i - 1}, i);
    hosts.begin(part::end);
  }
  claim.byte(1).byte(0).begin(part::block).byte(2).byte(252).text("not a frame");
  foreign.byte(0).byte(0).begin(part::metadata).text(R"({"types":[[1,2],"x"],"job":7,"boot":3})");
  foreign.begin(part::head).word(offsetof(trace::file_head, chunks));
  for (int i = 0; i < 8; ++i) foreign.byte(0xff);
  foreign.begin(part::raw).text(std::string(200, 'r'));
  return {{"ring", ring.done()},
          {"log", log.done()},
          {"two_hosts", hosts.done()},
          {"block_that_claims_1_gib", claim.done()},
          {"foreign", foreign.done()}};
}

void run(std::span<const std::byte> given) {
  input from(given);
  constexpr std::uint64_t memory_max = std::uint64_t{64} << 20;
  trace::memory_budget budget(memory_max);
  std::vector<trace::trace_file> files;
  for (std::size_t i = 0; i < files_max && !from.empty(); ++i) {
    auto read = trace::parse_trace_file(file_maker(i).make(from), fmt::format("file {}", i), budget);
    if (read) files.push_back(std::move(*read));
  }
  if (files.empty()) return;
  if (const auto run = trace::make_recording(std::move(files))) ask_everything(*run);
}

}  // namespace troupe::fuzz::trace_reader_target

TROUPE_FUZZ_TARGET(trace_reader)
