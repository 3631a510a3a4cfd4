// Where the page has its data from: a run's recording, read again when there is more of it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "trace/recording.hpp"

namespace troupe::page {

/// What a source has.
struct reading {
  std::shared_ptr<const trace::recording> what;  ///< as of the last time that it could be read; null: it never could
  std::uint64_t generation = 0;                  ///< counts from 1 what was read; the same one is the same recording
  bool live = false;                             ///< a process of the run is still there
  std::string problem;                           ///< why there is none, or none newer
};

class source {
 public:
  virtual ~source() = default;
  /// The newest. For one thread.
  virtual reading latest() = 0;
};

/// The files of a run that is over, or under way on this machine. Looks at them only when asked, and reads them only if
/// they have changed.
class recorded : public source {
 public:
  /// How often it looks at most.
  struct pace {
    std::chrono::milliseconds least{1000};  ///< from one look to the next
    int rest = 9;                           ///< so many times as long as a look took, it does not look
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
  std::shared_ptr<trace::recording> read_;  ///< what `newest_` has
  std::chrono::steady_clock::time_point next_look_{};
};

}  // namespace troupe::page
