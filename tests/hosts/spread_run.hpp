// A run whose processes the test places: on hosts that it has made, or all on this machine, with relays in between if
// needed.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/links/endpoint.hpp"
#include "tests/end_to_end/program.hpp"
#include "tests/hosts/host.hpp"

namespace troupe::hosts {

using end_to_end::args;
using end_to_end::with;

/// The environment of processes that know the token.
end_to_end::launch with_token();

/// An endless job with little work per step.
const args endless = {"--data", "tutorial", "--epochs", "1000000000", "--servers", "2", "--trainers", "2"};

/// Runs the job in one process and returns the digest of its weights.
std::string digest_of_one_process(const args& job);

/// Returns the first line of `text` that contains `part`; fails the test if no line does.
std::string line_with(const std::string& text, const std::string& part);

/// Starts the program on a host; null: on this machine.
std::unique_ptr<end_to_end::program> start_on(const host* where, const args& arguments);

/// Where a process runs, and its further options.
struct place {
  const host* on = nullptr;
  args options = {};
  /// Where it reaches the master, if not at the master's own address.
  std::optional<links::endpoint> master = std::nullopt;
};

class spread_run {
 public:
  /// Starts the master, which listens at `address` on any free port. All processes get the options `network`.
  spread_run(args job, args network, const host* on = nullptr, const std::string& address = "127.0.0.1");

  end_to_end::program& master() { return *master_; }
  const links::endpoint& where() const { return where_; }

  /// Starts a `server` or `trainer` and waits until it is registered: ranks follow the order of the calls.
  end_to_end::program& join(const std::string& role, const place& at = {});

  /// Returns the member started by the `number`-th call of `join` (from 0); `kill` moves later ones forward.
  end_to_end::program& member(std::size_t number) { return *members_.at(number); }

  /// Sends SIGKILL to that member and removes it from this run.
  void kill(std::size_t member);

  /// Waits until the run trains.
  void wait_until_it_trains();

  /// Waits until all processes have ended, expects success, and returns the digest.
  std::string finish();

  /// The error lines of a failed run's processes.
  struct failure {
    std::string master;
    std::vector<std::string> members;  // in the order in which they joined
  };

  /// Waits until all processes have ended, expects that this takes a few seconds and that each has exit code 1 and one
  /// error line, and returns these lines.
  failure finish_failed();

 private:
  args network_;
  links::endpoint where_;
  std::unique_ptr<end_to_end::program> master_;
  std::vector<std::unique_ptr<end_to_end::program>> members_;
};

}  // namespace troupe::hosts
