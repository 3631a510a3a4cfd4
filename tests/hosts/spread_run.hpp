// A run whose processes the test puts where it wants them: on hosts that it has made, or all on this one, and with a
// relay between them if it likes.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "links/endpoint.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/hosts/host.hpp"

namespace troupe::hosts {

using end_to_end::with;
using end_to_end::words;

/// The environment of all who know the token.
end_to_end::launch with_token();

/// A job without end, of little work a step.
const words endless = {"--data", "tutorial", "--epochs", "1000000000", "--servers", "2", "--trainers", "2"};

/// Runs the job in one process and returns the digest of its weights.
std::string digest_of_one_process(const words& job);

/// The first line of `text` that has `part`; fails the test if none has.
std::string line_with(const std::string& text, const std::string& part);

/// Starts the program on a host; null: on this one.
std::unique_ptr<end_to_end::program> start_on(const host* where, const words& arguments);

/// Where a process is put, and what else it is told.
struct place {
  const host* on = nullptr;
  words options = {};
  /// Where it finds the master, if not where the master is.
  std::optional<links::endpoint> master = std::nullopt;
};

class spread_run {
 public:
  /// Starts the master, which listens at `address`, at any free port. `network` are the options that everybody has.
  spread_run(words job, words network, const host* on = nullptr, const std::string& address = "127.0.0.1");

  end_to_end::program& master() { return *master_; }
  const links::endpoint& where() const { return where_; }

  /// Starts a `server` or `trainer` and waits until it is known as such: ranks follow the order of the calls.
  end_to_end::program& join(const std::string& role, const place& at = {});

  /// Returns the member that the `number`-th call of `join` has started (from 0); `kill` moves later ones forward.
  end_to_end::program& member(std::size_t number) { return *members_.at(number); }

  /// Sends SIGKILL to that member and removes it from this run.
  void kill(std::size_t member);

  /// Waits until it trains.
  void wait_until_it_trains();

  /// Waits for everybody's end, expects that all has gone well, and returns the digest.
  std::string finish();

  /// What those who took part in a run that failed said.
  struct failure {
    std::string master;
    std::vector<std::string> members;  // in the order in which they joined
  };

  /// Waits for everybody's end, expects that it comes within some seconds and that each has exit code 1 and one error
  /// line, and returns these lines.
  failure finish_failed();

 private:
  words network_;
  links::endpoint where_;
  std::unique_ptr<end_to_end::program> master_;
  std::vector<std::unique_ptr<end_to_end::program>> members_;
};

}  // namespace troupe::hosts
