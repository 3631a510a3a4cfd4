// The recorder of a process: its actors write their records through it, filtered as the user wants.

#pragma once

#include <atomic>
#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "trace/record/filter.hpp"
#include "trace/record/log_writer.hpp"
#include "trace/record/ring.hpp"

namespace troupe::trace {

/// off: records nothing. ring: the last records. full: all records, and digests of message contents. payload: as full,
/// plus the contents of messages to the chosen actors.
enum class mode : std::uint8_t { off, ring, full, payload };

/// A message type: its number in records, and its name.
struct message_type {
  std::uint16_t number = 0;
  std::string name;
};

class recorder {
 public:
  struct options {
    mode what = mode::ring;
    std::filesystem::path folder;  ///< created if missing, for this user only
    std::uint64_t ring_bytes = std::uint64_t{16} << 20;
    filter wanted;
    std::vector<std::string> payload_actors;  ///< patterns; mode payload, empty: all
    std::vector<message_type> types;
    std::string command;  ///< the command line of this process, shown to readers
  };

  /// Starts recording. Errors: one line for the user.
  static result<std::unique_ptr<recorder>> start(options how);
  /// Without a preceding `finish`, the recording ends as failed.
  ~recorder();

  recorder(const recorder&) = delete;
  recorder& operator=(const recorder&) = delete;

  mode what() const { return how_.what; }
  const std::filesystem::path& folder() const { return how_.folder; }

  /// The run that this process takes part in; 0: not known yet. Thread: any.
  std::uint64_t run() const { return std::as_const(*ring_).head().run.load(std::memory_order_acquire); }
  /// Sets the run that this process takes part in, and its node and incarnation there.
  void set_run(std::uint64_t run, std::uint32_t node, std::uint32_t incarnation);
  /// Adds to the metadata of the run for readers. Thread: any.
  void describe(std::string_view key, boost::json::value what);
  /// Returns the number that stands in records for a name that a program gives to its work. All processes get the same
  /// number, unless another name has it already. The first 1,000 names are kept; later ones become `more`. Thread: any.
  std::uint16_t number_of(std::string_view name);
  /// Ends the recording. If `clean`, mode `ring` keeps no file; otherwise the files stay, marked as failed. Requires:
  /// no thread records any more.
  void finish(bool clean);

  /// Whether nothing has been recorded yet.
  bool is_empty() const { return std::as_const(*ring_).head().next_chunk.load(std::memory_order_relaxed) == 0; }

  /// The current bytes of this process's ring, and its file name. Thread: any.
  std::string copy() const { return ring_->copy(); }
  std::filesystem::path ring_file() const { return ring_->file(); }
  /// The board of this process's actors. Thread: any.
  std::vector<const board_entry*> actors() const { return ring_->actors(); }
  /// The open calls of this process's actors. Thread: any.
  std::vector<std::pair<std::uint16_t, call_state>> calls() const { return ring_->calls(); }

  /// The numbers of records and contents that came faster than the log could save them; zeros if there is no log.
  std::pair<std::uint64_t, std::uint64_t> lost() const;
  /// Why the log is incomplete; empty: complete, or no log.
  std::string problem() const { return log_ ? log_->problem() : ""; }

  // -- for actors, on the hot path --------------------------------------------------

  /// Whether to record for an actor for which `wants_actor` is true. If false, the caller counts the drop, on the board
  /// or by `note_dropped`.
  bool wants(std::uint16_t type, std::uint64_t step) noexcept {
    if (takes_all_) [[likely]]
      return true;
    return wants_filtered(type, step);
  }
  bool wants_actor(std::string_view name) const { return how_.wanted.takes_actor(name); }
  bool wants_contents() const { return log_ != nullptr; }
  bool wants_payload(std::string_view actor) const;

  void note_dropped() noexcept { ring_->head().dropped.fetch_add(1, std::memory_order_relaxed); }

  void append(const record& what) noexcept { ring_->append(what); }
  void keep(content_job job) { log_->keep(std::move(job)); }
  board_entry* add_actor(std::uint16_t actor, std::uint16_t incarnation, const std::string& name) {
    return ring_->add_actor(actor, incarnation, name);
  }
  board_call* add_call(std::uint16_t actor) { return ring_->add_call(actor); }

 private:
  recorder() = default;
  void write_metadata();
  bool wants_filtered(std::uint16_t type, std::uint64_t step) noexcept;

  options how_;
  bool takes_all_ = true;
  bool is_finished_ = false;
  bool clean_ = false;
  std::vector<bool> type_wanted_;
  std::atomic<std::uint64_t> taken_ = 0;
  std::mutex metadata_mutex_;
  boost::json::object metadata_;
  std::map<std::string, std::uint16_t, std::less<>> given_names_;
  std::map<std::uint16_t, std::string> shown_names_;  ///< by number
  std::unique_ptr<ring> ring_;
  std::unique_ptr<log_writer> log_;
};

}  // namespace troupe::trace
