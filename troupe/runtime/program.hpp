// A user's program, configured by its command line: the options of every cluster.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/launch/checkpoint_options.hpp"
#include "cluster/launch/console.hpp"
#include "cluster/launch/machine_options.hpp"
#include "cluster/launch/trace_options.hpp"
#include "cluster/nodes/node.hpp"
#include "cluster/nodes/run.hpp"
#include "model/job.hpp"
#include "trace/record/recording.hpp"
#include "trace/replay/replay_order.hpp"
#include "troupe/option.hpp"

namespace troupe::runtime {

/// The role of a process in a run.
enum class program_part : std::uint8_t {
  leader,  ///< has the master, and all members unless they are other processes
  member,  ///< joins a master (--join)
  child    ///< was started by a leader (--processes)
};

/// A recording, and how a replay checks the run against it.
struct recorded_run {
  trace::recording recorded;
  replay::replay_order order;
};

struct program_order {
  std::string name;
  program_part part = program_part::leader;
  bool quiet = false;
  std::uint32_t servers = 1;
  std::uint64_t seed = 1;
  /// The seed, and the program's own options: equal in all processes of a run.
  std::vector<model::setting> settings = {};
  /// The same as command-line arguments.
  std::vector<std::string> settings_given = {};
  /// The names of the program's own options.
  std::vector<std::string> own_options = {};
  /// Names of settings whose values may differ in a resumed run.
  std::vector<std::string> free_on_resume = {"servers"};
  launch::machine_options machine = {};
  launch::trace_order tracing = {};
  nodes::network_options network = {};

  /// The recorded run to replay, or null.
  std::shared_ptr<const recorded_run> replayed = {};

  // Used by the leader alone.
  bool processes = false;
  bool tls = false;
  std::optional<links::endpoint> listen = {};
  launch::checkpoint_order checkpoints = {};
  std::chrono::milliseconds rejoin_timeout{};
  /// The given network options, for advice.
  std::string network_options_given = {};

  // Used by members alone.
  nodes::node_options offer = {};

  /// What the leader has assigned to a child.
  struct {
    std::string role;
    std::string rank;
  } child = {};
};

/// The file's name, for lines on stderr.
std::string program_name(int argc, char** argv);

/// Parses a program's arguments, and sets the variables of its own options. Ends the program after --help. Throws
/// `error` of kind input.
program_order read_program(int argc, char** argv, std::span<const option> own);

/// The definition of a program's run.
struct program_run {
  std::uint32_t trainers = 0;
  actors::planner plan;
  actors::trainer_maker make_trainer;
  /// Equal in all processes of the run.
  std::vector<model::setting> settings;
};

/// Runs the program's part. Returns for a leader only: other processes end with the run. Throws `error` if it fails.
actors::run_summary run_program(const program_order& order, const program_run& what);

/// Makes an uncaught `error` end the program with its line on stderr and an exit code: 2 for wrong input, else 1.
void end_on_errors(const std::string& program);

}  // namespace troupe::runtime
