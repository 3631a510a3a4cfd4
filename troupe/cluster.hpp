// A run of one's own program: parameter servers and trainers.

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
  /// The run begins with such a table there, or such a module of a registered type: `make<counter>({.from = 3})`.
  /// Throws `error` as its constructor does.
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

/// What a run leaves.
struct run_summary {
  /// Steps of trainer 0: calls of `distributed_optimizer::step`, rounded up to whole optimizer steps.
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
  /// The run begins with such a table, spread over all servers (as far as it has rows or columns): trainers look up and
  /// train its rows where they are. Its bits are those of a table on one server, if optimizer steps train all that is
  /// on the servers: each server counts the steps that it takes part in. Its state and its rows are those of the whole
  /// table; no handle of it goes in messages.
  template <std::same_as<nn::embedding_bag> Module>
  remote_module<Module> make(const nn::embedding_bag::options& options) {
    return remote_module<Module>(make_table(options));
  }

  /// Runs `function(me, arguments...)` beside the trainers of the run that follows, in the process that leads it: to
  /// ask servers while they train. Returns at once.
  template <class Function, class... Arguments>
  void client(Function function, Arguments... arguments) {
    add_client([=](troupe::client me) -> task<> { return function(me, arguments...); });
  }

  /// Runs `function(me, arguments...)` on each of `trainers` trainers, and returns when all have ended. In processes
  /// that are only members of the run it does not return: they end with it. Throws `error` if a trainer fails: with its
  /// text, trainer and step; and if the last checkpoint could not be written. Once.
  template <class Function, class... Arguments>
  run_summary run(std::uint32_t trainers, Function function, Arguments... arguments) {
    return run(run_options{.trainers = trainers}, function, arguments...);
  }
  /// The same with rules of how the trainers take their optimizer steps: `run({.trainers = 2, .clip_norm = 1}, ...)`.
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
