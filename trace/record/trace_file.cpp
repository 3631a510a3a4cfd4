#include "trace/record/trace_file.hpp"

#include <fmt/format.h>
#include <zstd.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>

#include "base/digest.hpp"
#include "base/input_files.hpp"
#include "base/lossless_json.hpp"
#include "trace/record/clock.hpp"
#include "trace/record/recording.hpp"

namespace troupe::trace {

namespace {

/// More than a log's writer ever collects for one block: contents of 256 MiB, and their names.
constexpr std::uint64_t block_bytes_max = std::uint64_t{512} << 20;

/// Reads a number at an offset of a shared structure. Requires: it is there.
template <class T>
T number_at(const char* base, std::size_t offset) {
  T value;
  std::memcpy(&value, base + offset, sizeof value);
  return value;
}

#define TROUPE_FIELD(base, structure, type, field) number_at<type>(base, offsetof(structure, field))

tl::unexpected<troupe::fault> wrong(const std::filesystem::path& name, const std::string& what) {
  return bad_input("{}: {}", name.string(), what);
}

clock_sample sample_at(const char* from) {
  clock_sample sample;
  std::memcpy(&sample, from, sizeof sample);
  return sample;
}

board_row board_row_at(const char* from) {
  board_row row;
  row.state = TROUPE_FIELD(from, board_entry, std::uint32_t, state);
  row.actor = TROUPE_FIELD(from, board_entry, std::uint16_t, actor);
  row.incarnation = TROUPE_FIELD(from, board_entry, std::uint16_t, incarnation);
  const char* name = from + offsetof(board_entry, name);
  row.name.assign(name, strnlen(name, sizeof board_entry::name));
  row.step = TROUPE_FIELD(from, board_entry, std::uint64_t, step);
  row.step_begin = TROUPE_FIELD(from, board_entry, std::uint64_t, step_begin);
  row.message = TROUPE_FIELD(from, board_entry, std::uint64_t, message);
  row.message_begin = TROUPE_FIELD(from, board_entry, std::uint64_t, message_begin);
  row.message_type = static_cast<std::uint16_t>(TROUPE_FIELD(from, board_entry, std::uint32_t, message_type));
  row.open_more = TROUPE_FIELD(from, board_entry, std::uint32_t, open_more);
  row.last_sent = TROUPE_FIELD(from, board_entry, std::uint64_t, last_sent);
  row.handled = TROUPE_FIELD(from, board_entry, std::uint64_t, handled);
  row.dropped = TROUPE_FIELD(from, board_entry, std::uint64_t, dropped);
  for (std::size_t i = 0; i < open_requests_max; ++i) {
    const char* one = from + offsetof(board_entry, open) + i * sizeof(open_request);
    const auto id = TROUPE_FIELD(one, open_request, std::uint64_t, id);
    if (id == 0) continue;
    const auto type_peer = TROUPE_FIELD(one, open_request, std::uint32_t, type16_peer16);
    row.open.push_back({id, TROUPE_FIELD(one, open_request, std::uint64_t, since),
                        static_cast<std::uint16_t>(type_peer), static_cast<std::uint16_t>(type_peer >> 16),
                        TROUPE_FIELD(one, open_request, std::uint32_t, step)});
  }
  return row;
}

void read_board(std::string_view bytes, trace_file& to, memory_budget& budget) {
  to.board.clear();
  to.calls.clear();
  // Entries exist as bytes of the file, as numbers and as a recording's actors.
  if (!budget.take(3 * bytes.size())) return;
  for (std::size_t at = 0; at + board_entry_bytes <= bytes.size(); at += board_entry_bytes) {
    board_row row = board_row_at(bytes.data() + at);
    if (row.state == 1 || row.state == 2) {
      to.board.push_back(std::move(row));
      continue;
    }
    if (row.state != board_call::state_of_calls) continue;
    if (const auto call = read_call(bytes.data() + at)) to.calls.push_back(*call);
  }
}

void read_chunks(std::string_view bytes, trace_file& to, memory_budget& budget) {
  for (std::size_t at = 0; at + chunk_bytes <= bytes.size() && !budget.exceeded(); at += chunk_bytes)
    read_chunk(bytes.data() + at, to, budget);
}

void read_contents(std::string_view bytes, trace_file& to, memory_budget& budget) {
  while (!bytes.empty()) {
    content one;
    if (!read_content(bytes, one, budget)) {
      to.warnings.push_back(fmt::format("{}: contents of messages are damaged", to.path.string()));
      return;
    }
    to.contents.push_back(std::move(one));
  }
}

/// Reads blocks up to the first that is incomplete, as while it is being written, or exceeds the budget.
void read_blocks(std::string_view bytes, trace_file& to, memory_budget& budget) {
  const bool is_written = is_alive(to).value_or(false);
  std::uint64_t at = head_bytes + metadata_bytes;
  const auto stop = [&](const char* why) {
    to.warnings.push_back(fmt::format("{}: {} at byte {}; {} bytes from there on are not read", to.path.string(), why,
                                      at, bytes.size() - at));
  };
  while (at < bytes.size() && !budget.exceeded()) {
    block_head head;
    if (bytes.size() - at < sizeof head) return is_written ? void() : stop("cut off");
    std::memcpy(&head, bytes.data() + at, sizeof head);
    if (head.magic != block_magic) return stop("damaged");
    if (bytes.size() - at - sizeof head < head.stored) return is_written ? void() : stop("cut off");
    const char* packed = bytes.data() + at + sizeof head;
    // The frame's own size is checked before memory is allocated for it.
    if (digest_of(std::as_bytes(std::span(packed, head.stored))) != head.digest || head.size > block_bytes_max ||
        ZSTD_getFrameContentSize(packed, head.stored) != head.size)
      return stop("damaged");
    if (!budget.fits(bytes.size() + head.size)) return;
    std::string raw(head.size, '\0');
    if (ZSTD_decompress(raw.data(), raw.size(), packed, head.stored) != raw.size()) return stop("damaged");
    if (head.what == block_kind::chunks) read_chunks(raw, to, budget);
    if (head.what == block_kind::contents) read_contents(raw, to, budget);
    if (head.what == block_kind::board) read_board(raw, to, budget);
    at += sizeof head + head.stored;
  }
}

void read_ring(std::string_view bytes, std::uint32_t entries, std::uint64_t chunks, trace_file& to,
               memory_budget& budget) {
  std::uint64_t at = head_bytes + metadata_bytes;
  read_board(bytes.substr(at, entries * board_entry_bytes), to, budget);
  at = (at + entries * board_entry_bytes + chunk_bytes - 1) / chunk_bytes * chunk_bytes;
  to.chunks_begin = at;
  to.chunk_capacity = chunks;
  const std::uint64_t there = at < bytes.size() ? (bytes.size() - at) / chunk_bytes : 0;
  if (there < chunks)
    to.warnings.push_back(fmt::format("{}: is cut off: {} of its {} chunks of records are missing", to.path.string(),
                                      chunks - there, chunks));
  if (at < bytes.size()) read_chunks(bytes.substr(at, std::min(there, chunks) * chunk_bytes), to, budget);
}

/// Requires: head and metadata are in `bytes`.
void read_metadata(std::string_view bytes, trace_file& to, memory_budget& budget) {
  const char* const base = bytes.data();
  const std::uint64_t length =
      std::min<std::uint64_t>(TROUPE_FIELD(base, file_head, std::uint32_t, metadata_length), metadata_bytes);
  const auto digest = TROUPE_FIELD(base, file_head, std::uint64_t, metadata_digest);
  const std::string_view text = bytes.substr(head_bytes, length);
  to.metadata_fault.clear();
  if (text.empty()) {  // a process may end before it can write any
    if (to.next_chunk > 0) to.metadata_fault = "are missing";
    return;
  }
  // A number of one digit and its comma become a value.
  if (!budget.take(text.size() * sizeof(boost::json::value) / 2)) return;
  auto parsed = parse_lossless_json(text);
  const bool is_whole = digest == 0 || digest == digest_of(std::as_bytes(std::span(text)));
  if (!parsed || !parsed->is_object() || !is_whole) {
    to.metadata_fault = "are damaged";
    return;
  }
  to.metadata = std::move(parsed->as_object());
}

}  // namespace

void read_chunk(const char* from, trace_file& to, memory_budget& budget) {
  const auto number = TROUPE_FIELD(from, chunk_head, std::uint64_t, number);
  if (number == 0) return;
  trace_file::chunk made;
  made.begin = sample_at(from + offsetof(chunk_head, begin));
  for (std::size_t i = 1; i <= records_per_chunk; ++i) {
    record one;
    std::memcpy(&one, from + i * sizeof one, sizeof one);
    if (one.stamp() == stamp_of(number) && one.what() != kind::none) made.records.push_back(one);
  }
  // A chunk also has entries in maps and lists, and each record stays until it has become an event.
  constexpr std::uint64_t chunk_overhead = 256;
  if (!budget.take(chunk_overhead + made.records.capacity() * sizeof(record) + made.records.size() * sizeof(event)))
    return;
  to.chunks.insert_or_assign(number, std::move(made));
}

result<trace_file> parse_trace_file(std::string_view bytes, const std::filesystem::path& name, memory_budget& budget) {
  trace_file made;
  made.path = name;
  const char* const base = bytes.data();
  std::array<char, 8> magic{};
  if (bytes.size() >= magic.size()) std::memcpy(magic.data(), base, magic.size());
  made.is_log = magic == log_magic;
  if (!made.is_log && magic != ring_magic) return wrong(name, "is not a trace of troupe");
  if (bytes.size() < head_bytes) return wrong(name, fmt::format("is cut off after {} bytes", bytes.size()));
  const auto version = TROUPE_FIELD(base, file_head, std::uint32_t, version);
  if (version != format_version)
    return wrong(name, fmt::format("is of version {}, this troupe reads version {}", version, format_version));
  const auto entries = TROUPE_FIELD(base, file_head, std::uint32_t, board_entries);
  const auto chunks = TROUPE_FIELD(base, file_head, std::uint64_t, chunks);
  constexpr std::uint32_t entries_max = 1U << 16;
  if (TROUPE_FIELD(base, file_head, std::uint32_t, head_size) != head_bytes ||
      TROUPE_FIELD(base, file_head, std::uint32_t, metadata_size) != metadata_bytes ||
      TROUPE_FIELD(base, file_head, std::uint32_t, chunk_size) != chunk_bytes ||
      TROUPE_FIELD(base, file_head, std::uint32_t, record_size) != sizeof(record) || entries > entries_max)
    return wrong(name, "is damaged: its head is not of this version");
  if (bytes.size() < head_bytes + metadata_bytes)
    return wrong(name, fmt::format("is cut off after {} bytes", bytes.size()));
  made.process = TROUPE_FIELD(base, file_head, std::uint64_t, process);
  made.run = TROUPE_FIELD(base, file_head, std::uint64_t, run);
  made.pid = TROUPE_FIELD(base, file_head, std::uint32_t, pid);
  made.node = TROUPE_FIELD(base, file_head, std::uint32_t, node);
  made.incarnation = TROUPE_FIELD(base, file_head, std::uint32_t, incarnation);
  made.end = static_cast<ending>(TROUPE_FIELD(base, file_head, std::uint32_t, end));
  made.next_chunk = TROUPE_FIELD(base, file_head, std::uint64_t, next_chunk);
  made.dropped = TROUPE_FIELD(base, file_head, std::uint64_t, dropped);
  made.contents_lost = TROUPE_FIELD(base, file_head, std::uint64_t, contents_lost);
  made.chunks_lost = TROUPE_FIELD(base, file_head, std::uint64_t, chunks_lost);
  made.begin = sample_at(base + offsetof(file_head, begin));
  made.seen = sample_at(base + offsetof(file_head, seen));
  read_metadata(bytes, made, budget);
  made.is_log ? read_blocks(bytes, made, budget) : read_ring(bytes, entries, chunks, made, budget);
  if (budget.exceeded()) return wrong(name, budget.problem());
  return made;
}

result<trace_file> parse_trace_file(std::string_view bytes, const std::filesystem::path& name) {
  memory_budget budget;
  return parse_trace_file(bytes, name, budget);
}

namespace {

/// Rereads metadata that could not be read: the process that still writes may have been changing them.
void read_changed_metadata(std::ifstream& file, trace_file& to, memory_budget& budget) {
  constexpr int attempts = 3;
  std::string bytes(head_bytes + metadata_bytes, '\0');
  for (int i = 0; i < attempts && !to.metadata_fault.empty() && to.end == ending::none; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    file.clear();
    file.seekg(0);
    if (file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) read_metadata(bytes, to, budget);
  }
}

}  // namespace

bool is_trace_file(const std::filesystem::path& path) {
  if (path.extension() != ".ring" && path.extension() != ".log") return false;
  std::array<char, 8> magic{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return true;  // the reader reports why it cannot be read
  file.read(magic.data(), magic.size());
  return magic == ring_magic || magic == log_magic;
}

result<trace_file> read_trace_file(const std::filesystem::path& path) {
  memory_budget budget;
  return read_trace_file(path, budget);
}

result<trace_file> read_trace_file(const std::filesystem::path& path, memory_budget& budget) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return wrong(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  remember_input(path.string(), "a file of the recording that is read");
  const std::uint64_t begin = ticks_now();
  const auto size = static_cast<std::uint64_t>(std::max<std::streamoff>(0, file.tellg()));
  if (!budget.fits(size)) return wrong(path, budget.problem());
  std::string bytes(size, '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  TROUPE_TRY(made, parse_trace_file(bytes, path, budget));
  read_changed_metadata(file, made, budget);
  made.read_from = begin;
  std::error_code failed;  // a file that has grown meanwhile was written by a process that has since ended
  if (made.is_log && std::filesystem::file_size(path, failed) > size && !failed)
    std::erase_if(made.warnings, [](const std::string& one) { return one.find(": cut off at") != std::string::npos; });
  return std::move(made);
}

std::optional<bool> is_alive(const trace_file& file) {
  if (file.seen.ticks != 0) return true;
  const auto* boot = file.metadata.if_contains("boot");
  if (file.end != ending::none || boot == nullptr || *boot != boost::json::string(this_boot())) return std::nullopt;
  return is_there(this_boot(), file.pid);
}

bool is_stopped(const trace_file& file) {
  const auto* boot = file.metadata.if_contains("boot");
  if (boot == nullptr || *boot != boost::json::string(this_boot())) return false;
  std::string line;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", file.pid)), line);
  const std::size_t state = line.rfind(") ");  // after the name, which may hold anything
  return state + 2 < line.size() && (line[state + 2] == 'T' || line[state + 2] == 't');
}

#undef TROUPE_FIELD

}  // namespace troupe::trace
