// The page's data: a run's recording, read again when it has grown.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "trace/record/recording.hpp"

namespace troupe::page {

/// The state of a source.
struct reading {
  std::shared_ptr<const trace::recording> what;  ///< from the last successful reading; null: none succeeded
  std::uint64_t generation = 0;                  ///< number of the reading, from 1; equal: the same recording
  bool live = false;                             ///< a process of the run still exists
  std::string problem;                           ///< why the last reading failed; empty: it did not
};

class source {
 public:
  virtual ~source() = default;
  /// Returns the newest snapshot. Thread: one at a time.
  virtual reading latest() = 0;
};

/// The files of a run that has ended, or is under way on this machine. They are checked only for a request, and read
/// only if they have changed.
class recorded : public source {
 public:
  /// Limits how often the files are checked.
  struct pace {
    std::chrono::milliseconds least{1000};  ///< between two checks
    int rest = 9;                           ///< pause after a check, as a multiple of its duration
  };

  explicit recorded(trace::sources from) : recorded(std::move(from), pace()) {}
  recorded(trace::sources from, pace how) : from_(std::move(from)), pace_(how) {}
  reading latest() override;

 private:
  using fingerprint = std::map<std::filesystem::path, std::uint64_t>;
  fingerprint look() const;

  const trace::sources from_;
  const pace pace_;
  fingerprint seen_;
  reading newest_;
  std::shared_ptr<trace::recording> read_;  ///< the recording of `newest_`
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace troupe::page
