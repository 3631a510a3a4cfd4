// Runs of several processes: started, watched by what they print, and gone when they should be.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "links/endpoint.hpp"
#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end {

/// What a run without end says of itself, in little time a step. Its first epoch event tells that it trains.
const words endless = {"--data", "tutorial", "--epochs", "1000000000"};
constexpr const char* trains = "\"event\":\"epoch\"";

constexpr const char* run_token = "a token that one run's processes share";
launch with_token(const std::string& token = run_token);

std::vector<pid_t> children_of(pid_t parent);
/// The process that leads the attempt under way, of a run whose supervisor is `parent`.
pid_t leader_of(pid_t parent);

/// Its JSON lines of that event.
std::vector<boost::json::object> events_of(const outcome& from, std::string_view name);
/// Expects that each of `count` epochs is told once, in order.
void expect_epochs(const outcome& from, std::uint64_t count);

/// The process of `who`, as in `trainer 1`, waited for in what `leader` prints about who has joined.
pid_t process_of(program& leader, const std::string& who);

/// What /proc has of a process: words that each end in a zero byte.
words proc_words(pid_t process, const std::string& file);

/// The first line of `text` that has `part`; fails the test if none has.
std::string line_with(const std::string& text, const std::string& part);

/// Waits for `condition`, which other processes make true; false if they never do.
bool comes_true(const std::function<bool()>& condition);

/// Whether somebody listens there.
bool somebody_listens(const links::endpoint& where);

/// A run whose members the test starts: a master that listens on a free port of this machine, and those who join it.
class gathered_run {
 public:
  /// `options` of the master; `network` are those that it shares with its members.
  explicit gathered_run(const words& options, words network = {}, launch how = with_token());

  program& master() { return *master_; }
  const std::string& where() const { return where_; }
  links::endpoint address() const { return *links::parse_endpoint(where_); }

  /// Starts somebody who joins, perhaps with variables of his own.
  program& join(const words& options, const std::vector<std::pair<std::string, std::string>>& variables = {});
  program& join_as(const std::string& role) { return join({"--as", role}); }
  /// Starts all servers, then all trainers, one process each.
  void join_all(int servers, int trainers);

  /// Waits for the ends of all who have joined, expects `code` of each, and returns what they left.
  std::vector<outcome> finish_members(int code);
  /// Lets go of those who have joined so far; they are ended.
  void forget_members() { members_.clear(); }
  /// Expects nothing more of one; it is ended with the run.
  void set_aside(pid_t process);
  /// Waits for everybody, expects that all has gone well, and returns the digest.
  std::string finish();

 private:
  words network_;
  launch how_;
  std::unique_ptr<program> master_;
  std::string where_;
  std::vector<std::unique_ptr<program>> members_;
  std::vector<std::unique_ptr<program>> aside_;
};

}  // namespace troupe::end_to_end
