// A run of one's own program: parameter servers and trainers.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "troupe/remote_module.hpp"
#include "troupe/task.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

class cluster;

/// One of a cluster's parameter servers.
class server {
 public:
  /// Makes a module there. Throws `error` if an option is invalid, or memory is short.
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
};

/// The servers begin with the cluster, and end with it.
class cluster {
 public:
  /// Reads the program's arguments: `--servers N` (1), `--threads N` (0: one for each core), `--seed N` (1). Throws
  /// `error` on others.
  cluster(int argc, char** argv);
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  ~cluster();

  /// Throws `error` if there is no such server.
  troupe::server server(std::uint32_t rank);

  /// Runs `function(me, arguments...)` on each of `trainers` trainers, and returns when all have ended. Throws `error`
  /// if one of them fails: with its text, trainer and step. Once.
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
