#include "cluster/nodes/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <caf/all.hpp>
#include <caf/scheduler/coordinator.hpp>
#include <cerrno>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <random>

#include "actors/common/actor_name.hpp"
#include "actors/common/idle_workers.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/master/master.hpp"
#include "actors/server/parameter_server.hpp"
#include "base/descriptor.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/diagnosis.hpp"
#include "cluster/nodes/one_queue.hpp"
#include "cluster/nodes/rendezvous.hpp"
#include "cluster/nodes/run_end.hpp"
#include "cluster/nodes/thread_memory.hpp"
#include "cluster/nodes/unreturned.hpp"
#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

namespace {

/// Draws a number that identifies the run in messages and recordings.
std::uint64_t draw_run_number() {
  constexpr std::uint64_t last = (std::uint64_t{1} << 53) - 1;  // exact in a JSON number
  std::random_device random;
  return std::uniform_int_distribution<std::uint64_t>(1, last)(random);
}

fault to_fault(const caf::error& error) {
  using protocol::errc;
  const bool input = error == errc::bad_input || error == errc::bad_index;
  const bool device = error == errc::device_failed;
  const bool lost = protocol::is_transient(error);
  return {input    ? fault_kind::input
          : device ? fault_kind::device
          : lost   ? fault_kind::lost
                   : fault_kind::run,
          protocol::describe(error)};
}

actors::run_summary to_summary(const msg::run_result& result, double seconds_before) {
  actors::run_summary summary{.steps = result.steps,
                              .samples = result.samples,
                              .setup_seconds = seconds_before + result.setup_seconds,
                              .seconds = result.seconds,
                              .figures = {result.loss, result.auc, result.accuracy, result.log_loss, result.calibration,
                                          result.test_loss, result.rmse},
                              .weights_digest = result.weights_digest,
                              .stopped = result.stopped,
                              .skipped_steps = result.skipped_steps,
                              .staleness_max = result.staleness_max,
                              .staleness_mean = result.staleness_mean,
                              .weights = std::nullopt,
                              .goes_on_with = result.goes_on_with,
                              .bubble = result.bubble};
  for (const msg::named_figure& one : result.own) summary.figures.own.add(one.name, one.value);
  if (result.dense.rows > 0) {
    summary.weights.emplace();
    const auto copy = [](const msg::tensor& from) {
      const auto numbers = from.as<float>();
      return std::vector<float>(numbers.begin(), numbers.end());
    };
    for (const msg::tensor& table : result.tables) summary.weights->tables.push_back(copy(table));
    summary.weights->dense = copy(result.dense);
  }
  return summary;
}

/// The actors of a run in this process; the destructor ends them.
struct run_members {
  run_members(caf::actor_system& system, std::uint64_t run_number, const run_request& what, const run_options& options)
      : boss(system.spawn(actors::master, run_number, options.observer, options.checkpoints, std::nullopt, what.plan)) {
    msg::header_source headers(run_number, actors::client_number);
    std::vector<msg::parameter_server_actor> servers;
    everyone.push_back(caf::actor_cast<caf::actor>(boss));
    for (std::uint32_t rank = 0; rank < what.servers; ++rank) {
      // If trainers have threads of their own, these also run the servers.
      const bool has_thread = options.devices.servers && !options.devices.trainers;
      auto server = actors::spawn_computing(system, has_thread, actors::parameter_server, run_number, rank);
      servers.push_back(server);
      everyone.push_back(caf::actor_cast<caf::actor>(server));
      caf::anon_send(boss, msg::join_server{headers.next(0, 0), server});
    }
    for (const msg::parameter_server_actor& one : servers) {
      actors::send_origins(one, {what.servers, {}, what.parts});
      actors::send_to_servers(one, servers);
    }
    std::map<std::uint32_t, actors::made_trainer> trainers;
    for (std::uint32_t rank = 0; rank < what.trainers; ++rank)
      trainers.emplace(rank, what.make_trainer(system, run_number, rank, what.servers));
    actors::introduce(trainers,
                      {std::vector<msg::peer_actor>(what.trainers), std::vector<caf::actor_addr>(what.trainers)});
    for (const auto& [rank, one] : trainers) {
      everyone.push_back(caf::actor_cast<caf::actor>(one.actor));
      caf::anon_send(boss, msg::join_trainer{headers.next(0, 0), one.actor});
    }
  }

  ~run_members() {
    for (const caf::actor& one : everyone) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }

  run_members(const run_members&) = delete;
  run_members& operator=(const run_members&) = delete;

  msg::master_actor boss;
  std::vector<caf::actor> everyone;
};

/// Has the master run `order` and returns the outcome; passes on a stop request. `members`: servers and trainers.
result<actors::run_summary> await(caf::actor_system& system, const msg::master_actor& boss, msg::run order,
                                  double seconds_before, const stop_request* user_stop, const run_options& options,
                                  std::size_t members, alert_slot& troubles) {
  auto promise = std::make_shared<std::promise<result<actors::run_summary>>>();
  auto outcome = promise->get_future();
  system.spawn([boss, order = std::move(order), promise, seconds_before](caf::event_based_actor* self) {
    self->request(boss, caf::infinite, order)
        .then([=](const msg::run_result& result) { promise->set_value(to_summary(result, seconds_before)); },
              [=](const caf::error& error) { promise->set_value(tl::unexpected(to_fault(error))); });
  });
  constexpr std::chrono::milliseconds interval{50};
  bool passed_on = false;
  watchdog steps(options.recorder, options.watch.step_timeout);
  diagnoses written(system, boss, options.recorder, members, options.watch.on_diagnosis);
  while (outcome.wait_for(interval) != std::future_status::ready) {
    auto due = steps.look();
    if (!due) due = troubles.take();
    if (!due && options.watch.wanted && options.watch.wanted()) due = signal_here;
    if (due) written.write(*due);
    // Repeated until it has an effect: before the master has begun, it has no run to give up.
    if (options.gather && options.gather->hopeless)
      if (auto why = options.gather->hopeless()) caf::anon_send(boss, msg::give_up{{}, std::move(*why)});
    if (passed_on || user_stop == nullptr || !user_stop->requested()) continue;
    passed_on = true;
    caf::anon_send(boss, msg::stop{});
  }
  return outcome.get();
}

/// Writes the run's description into the recording.
void describe_run(const run_options& options, std::uint64_t run_number, const run_request& what) {
  trace::recorder& recorder = *options.recorder;
  recorder.set_run(run_number, 0, 0);
  boost::json::object settings;
  for (const auto& [name, text] : what.settings) settings[name] = text;
  if (!what.program.empty()) recorder.describe("program", boost::json::string(what.program));
  recorder.describe("job", std::move(settings));
  recorder.describe("data_digest", boost::json::string(what.data_digest));
  recorder.describe("remote", options.gather.has_value());
  const auto& devices = options.devices;
  recorder.describe(
      "devices", boost::json::object{{"trainers", devices.trainers},
                                     {"servers", devices.servers},
                                     {"numbers", boost::json::array(devices.numbers.begin(), devices.numbers.end())}});
  recorder.describe("from_step", options.checkpoints.from ? options.checkpoints.from->manifest.step : 0);
}

/// Has `workers` workers run the actors of this process. Workers at a shared queue start on each message at once, which
/// pays if they are few, or if messages are rare and long work follows, as between parts of a network. Work-stealing
/// workers poll with sleeps, and leave an actor to the worker that has woken it.
void share_work(caf::actor_system_config& config, std::size_t workers, bool has_parts) {
  constexpr std::size_t few = 2;
  config.set("caf.scheduler.max-threads", workers);
  if (workers <= few)
    config.module_factories.push_back([](caf::actor_system& system) -> caf::actor_system::module* {
      return new caf::scheduler::coordinator<one_queue>(system);
    });
  else if (has_parts)
    config.set("caf.scheduler.policy", "sharing");
  else
    config.set("caf.work-stealing.moderate-steal-interval", 1);  // with every poll, not with every fifth
}

}  // namespace

actors::run_summary unbegun(const run_options& options) {
  actors::run_summary nothing;
  nothing.stopped = true;
  nothing.figures.loss = std::numeric_limits<double>::quiet_NaN();
  if (const auto& from = options.checkpoints.from) nothing.steps = from->manifest.step;
  return nothing;
}

result<void> check_descriptors(std::size_t processes) {
  // The leading process needs its threads' polls, its port and files, and for each member a connection and a socket
  // pair. A member needs its own polls, and for each other process a connection with shared memory.
  const std::size_t leads = 14 + 3 * processes;
  const std::size_t takes_part = 15 + 2 * processes;
  const std::size_t needed = std::max(leads, takes_part);
  const std::size_t left = descriptors_left(needed);
  if (left >= needed) return {};
  return bad_input("{}: a run of {} processes needs some {} more file descriptors in each, {} are left",
                   std::strerror(EMFILE), processes + 1, needed, left);
}

result<actors::run_summary> run(const run_request& what, const run_options& given_options,
                                const stop_request* user_stop) {
  const auto troubles = std::make_shared<alert_slot>();
  run_options options = given_options;
  options.observer.on_trouble = [troubles](const std::string& text) { troubles->put(text); };
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  std::optional<stop_scope> heeds;
  if (user_stop != nullptr) heeds.emplace(*user_stop);

  options.gather ? initialize_network_types() : protocol::initialize_types();
  actors::traced_config config;
  config.recorder = options.recorder;
  config.replayed = options.replayed;
  config.devices = options.devices;
  if (!options.gather) config.batch_makers = actors::make_batch_threads(options.batch_threads, what.trainers);
  config.config_file_path.clear();  // else CAF reads a file of the current directory
  share_work(config, worker_threads(options.threads), what.parts > 1);
  if (options.gather) add_network(config);
  run_end end(config);
  caf::actor_system system(config);
  const run_end::announcer over(end);
  const actors::workers_help help(system);
  const std::uint64_t run_number = draw_run_number();
  if (options.recorder != nullptr) describe_run(options, run_number, what);
  const msg::run order{msg::header_source(run_number, actors::client_number).next(0, 0), what.settings,
                       options.return_weights};
  const auto run_by = [&](const msg::master_actor& boss) {
    std::optional<leading_run> leads;  // a replay accepts only recorded messages
    if (options.replayed == nullptr) leads.emplace(system, boss, !what.program.empty());
    const std::chrono::duration<double> before = clock::now() - begin;
    auto outcome =
        await(system, boss, order, before.count(), user_stop, options, what.servers + what.trainers, *troubles);
    if (outcome && options.recorder != nullptr)
      options.recorder->describe("result", boost::json::object{{"steps", outcome->steps},
                                                               {"stopped", outcome->stopped},
                                                               {"weights_digest", outcome->weights_digest}});
    return outcome;
  };
  if (options.gather) return run_with_nodes(system, run_number, what.plan, options, run_by);
  const run_members actors(system, run_number, what, options);
  return run_by(actors.boss);
}

}  // namespace troupe::nodes
