// Runs a user's program: parameter servers and trainers.

#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/client.hpp"
#include "troupe/option.hpp"
#include "troupe/remote_module.hpp"
#include "troupe/run_options.hpp"
#include "troupe/task.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

class cluster;

/// One of a cluster's parameter servers.
class server {
 public:
  /// Adds a table, or a module of a registered type, that this server makes when the run begins: `make<counter>({.from
  /// = 3})`. Throws `error` if its constructor does.
  template <detail::can_be_made Module>
  remote_module<Module> make(const detail::remote_options_type<Module>& options = {}) const {
    return remote_module<Module>(make_module(detail::wanted<Module>(options)));
  }

 private:
  friend class cluster;
  server(cluster& of, std::uint32_t rank) : cluster_(&of), rank_(rank) {}

  std::shared_ptr<const runtime::reference> make_module(const detail::wanted_module& what) const;

  cluster* cluster_;
  std::uint32_t rank_;
};

/// The result of a run.
struct run_summary {
  /// Steps of trainer 0: calls of `distributed_optimizer::step`, rounded up to whole optimizer steps.
  std::uint64_t steps = 0;
  double seconds = 0;
  /// A digest of all weights: of the rows of every table, and of trainer 0's replicas.
  std::string weights_digest;
  /// Whether the user ended it early.
  bool stopped = false;
};

/// The place where a program runs: in this process, in one process for each role (`--processes`), or on any number of
/// hosts (`--listen` and `--join`); see `--help`. Every process runs the same main.
class cluster {
 public:
  /// Parses the program's arguments, and sets the variables of its `own` options. Ends the program after --help. Throws
  /// `error` on wrong arguments. From now on an uncaught `error` ends the program with its line and an exit code: 2 for
  /// wrong input, else 1.
  cluster(int argc, char** argv, std::vector<option> own = {});
  cluster(const cluster&) = delete;
  cluster& operator=(const cluster&) = delete;
  ~cluster();

  /// The seed of all random numbers (`--seed`).
  std::uint64_t seed() const;

  /// Throws `error` if there is no such server.
  troupe::server server(std::uint32_t rank);
  /// Adds a table that is spread over all servers (as far as it has rows or columns). Trainers look up and train rows
  /// where they are. Its bits are those of a table on one server if optimizer steps train all modules on the servers:
  /// each server counts the steps that it takes part in. State and rows are those of the whole table; its handle cannot
  /// be sent in messages.
  template <std::same_as<nn::embedding_bag> Module>
  remote_module<Module> make(const nn::embedding_bag::options& options) {
    return remote_module<Module>(make_table(options));
  }

  /// Runs `function(me, arguments...)` beside the trainers of the next run, in its leading process, to ask servers
  /// during training. Returns at once.
  template <class Function, class... Arguments>
  void client(Function function, Arguments... arguments) {
    add_client([=](troupe::client me) -> task<> { return function(me, arguments...); });
  }

  /// Runs `function(me, arguments...)` on each of `trainers` trainers, and returns when all have ended. Processes that
  /// are only members of the run end with it: there it does not return. Throws `error` if a trainer fails, with its
  /// text, trainer and step, or if the last checkpoint could not be written. Call it once.
  template <class Function, class... Arguments>
  run_summary run(std::uint32_t trainers, Function function, Arguments... arguments) {
    return run(run_options{.trainers = trainers}, function, arguments...);
  }
  /// The same, with rules for the optimizer steps: `run({.trainers = 2, .clip_norm = 1}, ...)`.
  template <class Function, class... Arguments>
  run_summary run(const run_options& how, Function function, Arguments... arguments) {
    return run_function(how, [=](trainer me) -> task<> { return function(me, arguments...); });
  }

 private:
  friend class troupe::server;
  using trainer_function = std::function<task<>(trainer)>;

  std::shared_ptr<const runtime::reference> make_table(const nn::embedding_bag::options& options);
  void add_client(std::function<task<>(troupe::client)> function);

  run_summary run_function(const run_options& how, trainer_function function);

  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe
