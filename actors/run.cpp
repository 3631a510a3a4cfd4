#include "actors/run.hpp"

#include <fmt/format.h>

#include <caf/all.hpp>
#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <thread>

#include "actors/actor_name.hpp"
#include "actors/master.hpp"
#include "actors/parameter_server.hpp"
#include "actors/trainer.hpp"
#include "model/memory.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

namespace {

constexpr std::uint64_t run_number = 1;

void initialize_types() {
  static const bool done = [] {
    caf::core::init_global_meta_objects();
    caf::init_global_meta_objects<caf::id_block::troupe>();
    return true;
  }();
  static_cast<void>(done);
}

fault to_fault(const caf::error& error) {
  const bool input = error == errc::bad_input || error == errc::bad_index || error == errc::out_of_memory;
  return {input ? fault_kind::input : fault_kind::run, describe(error)};
}

std::optional<double> present(double x) { return std::isnan(x) ? std::nullopt : std::optional<double>(x); }

run_summary to_summary(const run_result& result, double seconds_before) {
  run_summary summary{.steps = result.steps,
                      .samples = result.samples,
                      .setup_seconds = seconds_before + result.setup_seconds,
                      .seconds = result.seconds,
                      .loss = result.loss,
                      .auc = present(result.auc),
                      .accuracy = present(result.accuracy),
                      .weights_digest = result.weights_digest,
                      .stopped = result.stopped,
                      .weights = std::nullopt};
  if (result.dense.rows > 0) {
    summary.weights.emplace();
    const auto copy = [](const tensor& from) {
      const auto numbers = from.as<float>();
      return std::vector<float>(numbers.begin(), numbers.end());
    };
    for (const tensor& table : result.tables) summary.weights->tables.push_back(copy(table));
    summary.weights->dense = copy(result.dense);
  }
  return summary;
}

/// The actors of a run; ends those that are still there when it goes.
struct run_members {
  run_members(caf::actor_system& system, const job& what, const run_observer& observer)
      : boss(system.spawn(master, run_number, observer)), headers(run_number, client_number) {
    everyone.push_back(caf::actor_cast<caf::actor>(boss));
    for (std::uint32_t rank = 0; rank < what.servers; ++rank) {
      auto server = system.spawn(parameter_server, run_number, rank);
      everyone.push_back(caf::actor_cast<caf::actor>(server));
      caf::anon_send(boss, join_server{headers.next(0, 0), server});
    }
    for (std::uint32_t rank = 0; rank < what.trainers; ++rank) {
      auto one = system.spawn(trainer, run_number, rank, what.servers);
      everyone.push_back(caf::actor_cast<caf::actor>(one));
      caf::anon_send(boss, join_trainer{headers.next(0, 0), one});
    }
  }

  ~run_members() {
    for (const caf::actor& one : everyone) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }

  run_members(const run_members&) = delete;
  run_members& operator=(const run_members&) = delete;

  master_actor boss;
  header_source headers;
  std::vector<caf::actor> everyone;
};

/// Has the master run `order` and waits for the outcome, passing on a wish to stop.
result<run_summary> await(caf::actor_system& system, run_members& actors, run order, double seconds_before,
                          const stop_request* stop_wish) {
  auto promise = std::make_shared<std::promise<result<run_summary>>>();
  auto outcome = promise->get_future();
  system.spawn([boss = actors.boss, order = std::move(order), promise, seconds_before](caf::event_based_actor* self) {
    self->request(boss, caf::infinite, order)
        .then([=](const run_result& result) { promise->set_value(to_summary(result, seconds_before)); },
              [=](const caf::error& error) { promise->set_value(tl::unexpected(to_fault(error))); });
  });
  constexpr std::chrono::milliseconds interval{50};
  bool passed_on = false;
  while (outcome.wait_for(interval) != std::future_status::ready) {
    if (passed_on || stop_wish == nullptr || !stop_wish->requested()) continue;
    passed_on = true;
    caf::anon_send(actors.boss, stop{actors.headers.next(0, 0)});
  }
  return outcome.get();
}

/// Refuses tables that cannot fit, before anything is allocated.
std::optional<fault> check_memory(const job& what, const dataset& data) {
  std::uint64_t needed = 0;
  for (const table_spec& table : data.spec().tables)
    if (__builtin_add_overflow(needed, table_bytes(table.rows, table.dim, state_buffers(what.sparse_optimizer)),
                               &needed))
      needed = UINT64_MAX;
  if (needed <= available_memory()) return std::nullopt;
  return fault{fault_kind::input, memory_fault(fmt::format("{} table(s)", data.spec().tables.size()), needed)};
}

}  // namespace

result<run_summary> run_job(const job& what, const run_options& options, const stop_request* stop_wish) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  auto data = open_dataset(what);
  if (!data) return tl::unexpected(data.error());
  if (auto problem = check_memory(what, **data)) return tl::unexpected(*problem);

  initialize_types();
  caf::actor_system_config config;
  config.config_file_path.clear();  // CAF reads a file of the current directory otherwise
  config.set("caf.scheduler.max-threads", options.threads > 0 ? options.threads : std::thread::hardware_concurrency());
  caf::actor_system system(config);
  run_members actors(system, what, options.observer);
  const std::chrono::duration<double> before = clock::now() - begin;
  run order{actors.headers.next(0, 0), to_settings(what), options.return_weights};
  return await(system, actors, std::move(order), before.count(), stop_wish);
}

}  // namespace troupe
