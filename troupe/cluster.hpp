// A run of one's own program: parameter servers and trainers.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/option.hpp"
#include "troupe/remote_module.hpp"
#include "troupe/task.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

class cluster;

/// One of a cluster's parameter servers.
class server {
 public:
  /// The run begins with such a module there.
  template <class Module>
  remote_module<Module> make(const typename Module::options& options) const {
    return make_module(options);
  }

 private:
  friend class cluster;
  server(cluster& of, std::uint32_t rank) : cluster_(&of), rank_(rank) {}

  remote_module<nn::embedding_bag> make_module(const nn::embedding_bag::options& options) const;

  cluster* cluster_;
  std::uint32_t rank_;
};

/// What a run leaves.
struct run_summary {
  /// Optimizer steps of trainer 0.
  std::uint64_t steps = 0;
  double seconds = 0;
  /// A digest of all weights: of the rows of every table, and of trainer 0's replicas.
  std::string weights_digest;
  /// The user ended it early.
  bool stopped = false;
};

/// Where a program's run happens: in this process, in one process for each role (`--processes`), or on any number of
/// hosts (`--listen` and `--join`); see `--help`. Every process runs the same main.
class cluster {
 public:
  /// Reads the program's arguments, and sets the variables of its `own` options. Ends the program after --help. Throws
  /// `error` on arguments that are wrong. From now on, an `error` that nobody catches ends the program with its line
  /// and an exit code: 2 for wrong input, else 1.
  cluster(int argc, char** argv, std::vector<option> own = {});
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  ~cluster();

  /// The seed of all random numbers (`--seed`).
  std::uint64_t seed() const;

  /// Throws `error` if there is no such server.
  troupe::server server(std::uint32_t rank);

  /// Runs `function(me, arguments...)` on each of `trainers` trainers, and returns when all have ended. In processes
  /// that are only members of the run it does not return: they end with it. Throws `error` if a trainer fails: with its
  /// text, trainer and step. Once.
  template <class Function, class... Arguments>
  run_summary run(std::uint32_t trainers, Function function, Arguments... arguments) {
    return run_function(trainers, [=](trainer me) -> task<> { return function(me, arguments...); });
  }

 private:
  friend class troupe::server;
  using trainer_function = std::function<task<>(trainer)>;

  run_summary run_function(std::uint32_t trainers, trainer_function function);

  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe
