// How long a process may take to end after a stop request, and which code may keep it.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// The time that a process has to end by itself after the first stop request.
constexpr std::chrono::seconds stop_grace{5};

/// Excludes time from the grace during this object's lifetime, such as the writing of a checkpoint. Thread: any.
class uncounted_time {
 public:
  uncounted_time();
  ~uncounted_time();
  uncounted_time(const uncounted_time&) = delete;
  uncounted_time& operator=(const uncounted_time&) = delete;
};
bool time_counts();

/// A snapshot of code that has not returned yet.
struct open_code {
  std::string who = {};    ///< `trainer 1`; empty: `what` is a whole sentence
  std::string what = {};   ///< `its function (in step 12)`
  std::uint64_t turn = 0;  ///< changes when the code is left or entered
  bool runs = true;        ///< a thread runs it now; else it awaits something
  bool is_awaited = true;  ///< the run waits until it returns; else only while it runs
  std::uint64_t id = 0;    ///< unique among the code of this process
};

/// Reports code as not returned, during this object's lifetime. Thread: any.
class code_under_way {
 public:
  /// Returns the code's current state, nullopt if it is doing nothing. Called on any thread, until this object is gone.
  using describer = std::function<std::optional<open_code>()>;

  explicit code_under_way(describer describe);
  ~code_under_way();
  code_under_way(const code_under_way&) = delete;
  code_under_way& operator=(const code_under_way&) = delete;

  /// All code of this process that has not returned, in the order of entering.
  static std::vector<open_code> all();

 private:
  const describer describe_;
  std::uint64_t id_ = 0;
};

}  // namespace troupe
