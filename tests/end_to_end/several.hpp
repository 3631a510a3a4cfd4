// Runs of several processes: start them, watch their output, and check their ends.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/links/endpoint.hpp"
#include "tests/end_to_end/program.hpp"

namespace troupe::end_to_end {

/// A run without end that prints little and has short steps. Its first epoch event shows that it trains.
const args endless = {"--data", "tutorial", "--epochs", "1000000000"};
constexpr const char* trains = "\"event\":\"epoch\"";

constexpr const char* run_token = "a token that one run's processes share";
launch with_token(const std::string& token = run_token);

std::vector<pid_t> children_of(pid_t parent);
/// The process that leads the current attempt of the run whose supervisor is `parent`.
pid_t leader_of(pid_t parent);

/// The JSON lines with this event.
std::vector<boost::json::object> events_of(const outcome& from, std::string_view name);
/// Expects that each of `count` epochs is reported once, in order.
void expect_epochs(const outcome& from, std::uint64_t count);

/// The process of `who`, such as `trainer 1`. Waits until `leader` prints that it has joined.
pid_t process_of(program& leader, const std::string& who);

/// A file of /proc about a process, split at its zero bytes.
args proc_words(pid_t process, const std::string& file);

/// The first line of `text` that contains `part`; fails the test without one.
std::string line_with(const std::string& text, const std::string& part);

/// Waits until other processes make `condition` true; returns false after a minute.
bool comes_true(const std::function<bool()>& condition);

/// Whether an address has a listener.
bool somebody_listens(const links::endpoint& where);

/// A run whose members the test starts: a master that listens on a free port of this machine, and members that join.
class gathered_run {
 public:
  /// `options` are the master's; `network` is shared by all members.
  explicit gathered_run(const args& options, args network = {}, launch how = with_token());

  program& master() { return *master_; }
  const std::string& where() const { return where_; }
  links::endpoint address() const { return *links::parse_endpoint(where_); }

  /// Starts a member that joins, with additional variables.
  program& join(const args& options, const std::vector<std::pair<std::string, std::string>>& variables = {});
  program& join_as(const std::string& role) { return join({"--as", role}); }
  /// Starts all servers, then all trainers, one process each.
  void join_all(int servers, int trainers);

  /// Waits for all members to end, expects the exit code `code` of each, and returns their outcomes.
  std::vector<outcome> finish_members(int code);
  /// Ends and forgets the members so far.
  void forget_members() { members_.clear(); }
  /// Expects nothing more from a member; it is ended with the run.
  void set_aside(pid_t process);
  /// Waits for all processes, expects that all succeed, and returns the digest.
  std::string finish();

 private:
  args network_;
  launch how_;
  std::unique_ptr<program> master_;
  std::string where_;
  std::vector<std::unique_ptr<program>> members_;
  std::vector<std::unique_ptr<program>> aside_;
};

}  // namespace troupe::end_to_end
