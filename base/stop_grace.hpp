// How long a process may take to end after a wish to stop, and what it is at that may not return.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// From the first wish to stop on a process has this time to end by itself.
constexpr std::chrono::seconds stop_grace{5};

/// Time does not count towards the grace while one of these lives, as while a checkpoint is written. Thread: any.
class uncounted_time {
 public:
  uncounted_time();
  ~uncounted_time();
  uncounted_time(const uncounted_time&) = delete;
  uncounted_time& operator=(const uncounted_time&) = delete;
};
bool time_counts();

/// Code that has not returned yet, as it is at one moment.
struct open_code {
  std::string who = {};    ///< `trainer 1`; empty: `what` is a whole sentence
  std::string what = {};   ///< `its function (in step 12)`
  std::uint64_t turn = 0;  ///< another number when it has been left or entered meanwhile
  bool runs = true;        ///< it is on a thread; else it awaits something
  bool is_awaited = true;  ///< the run does not end before it returns; else only as long as it runs
  std::uint64_t id = 0;    ///< no other code of this process has it
};

/// Says of code that it has not returned yet, while this object lives. Thread: any.
class code_under_way {
 public:
  /// Returns the code as it is now, nullopt: it is at nothing. It is called on any thread, until this object has gone.
  using describer = std::function<std::optional<open_code>()>;

  explicit code_under_way(describer describe);
  ~code_under_way();
  code_under_way(const code_under_way&) = delete;
  code_under_way& operator=(const code_under_way&) = delete;

  /// All code of this process that has not returned, the first that was entered before the others.
  static std::vector<open_code> all();

 private:
  const describer describe_;
  std::uint64_t id_ = 0;
};

}  // namespace troupe
