#include "troupe/cluster.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <future>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "actors/actor_name.hpp"
#include "actors/allreduce_group.hpp"
#include "actors/final_weights.hpp"
#include "actors/parameter_server.hpp"
#include "actors/traced_system.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/remote_table.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

namespace runtime {

/// What a program's arguments say.
struct program_arguments {
  std::uint32_t servers = 1;
  std::uint32_t threads = 0;
  std::uint64_t seed = 1;
};

}  // namespace runtime

namespace {

runtime::program_arguments read_arguments(int argc, char** argv) {
  runtime::program_arguments chosen;
  CLI::App app;
  app.add_option("--servers", chosen.servers, "Parameter servers")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_option("--threads", chosen.threads, "Worker threads; 0: one for each core")->capture_default_str();
  app.add_option("--seed", chosen.seed, "Seed of all random numbers")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    throw error(error_kind::input, wrong.what());
  }
  return chosen;
}

std::uint64_t draw_run_number() {
  constexpr std::uint64_t last = (std::uint64_t{1} << 53) - 1;
  std::random_device random;
  return std::uniform_int_distribution<std::uint64_t>(1, last)(random);
}

actors::traced_config make_config(const runtime::program_arguments& chosen) {
  protocol::initialize_types();
  actors::traced_config config;
  config.config_file_path.clear();
  config.set("caf.scheduler.max-threads",
             chosen.threads > 0 ? std::size_t{chosen.threads} : std::thread::hardware_concurrency());
  return config;
}

}  // namespace

struct cluster::parts {
  explicit parts(const runtime::program_arguments& given) : chosen(given), config(make_config(given)), system(config) {
    for (std::uint32_t rank = 0; rank < chosen.servers; ++rank)
      servers.push_back(system.spawn(actors::parameter_server, run_number, rank));
  }

  ~parts() {
    for (const auto& one : servers) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }

  /// Asks an actor from the caller's thread. Throws `error` if it refuses.
  template <class Answer, class Handle, class Message>
  Answer ask(const Handle& whom, Message message) {
    Answer given;
    client->request(whom, caf::infinite, std::move(message))
        .receive([&](Answer& answer) { given = std::move(answer); },
                 [](const caf::error& why) { throw runtime::to_error(why); });
    return given;
  }

  std::string weights_digest(std::uint64_t steps, std::uint64_t dense_digest) {
    std::vector<actors::weights_digest::table> digested;
    for (const auto& table : tables)
      digested.push_back({static_cast<std::uint64_t>(table->spec().tables.front().rows),
                          static_cast<std::uint32_t>(table->shards().size())});
    actors::weights_digest digest(std::move(digested));
    while (const auto part = digest.next()) {
      const msg::module_ref& shard = tables[part->table]->shards()[part->shard];
      digest.add(*part, ask<msg::tensor>(shard.server, msg::row_digests{headers.next(steps, 0), shard.module,
                                                                        part->first, part->rows}));
    }
    return digest.text(dense_digest);
  }

  /// Runs the trainers to their end. Throws `error` with the first failure, after all have ended.
  std::vector<msg::trained> train(std::uint32_t trainers, const trainer_function& function);

  const runtime::program_arguments chosen;
  actors::traced_config config;
  caf::actor_system system;
  std::uint64_t run_number = draw_run_number();
  msg::header_source headers{run_number, actors::client_number};
  caf::scoped_actor client{system};
  std::vector<msg::parameter_server_actor> servers;
  std::vector<std::shared_ptr<const runtime::remote_table>> tables;
  bool has_run = false;
};

namespace {

/// Trainers at work: what they have answered, and what went wrong first.
struct trainers_at_work {
  std::vector<msg::trainer_actor> members;
  std::vector<msg::trained> results;
  std::set<caf::actor_addr> at_work;
  caf::error failure;
  std::promise<void> over;

  void fail(const caf::error& why) {
    const bool is_first = !failure || (protocol::is_secondary(failure) && !protocol::is_secondary(why));
    if (is_first) failure = why;
    for (const auto& one : members) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  }
};

}  // namespace

std::vector<msg::trained> cluster::parts::train(std::uint32_t trainers, const trainer_function& function) {
  auto work = std::make_shared<trainers_at_work>();
  auto group = system.spawn(actors::allreduce_group, run_number, actors::group_layout::one_process(trainers));
  work->results.resize(trainers);
  for (std::uint32_t rank = 0; rank < trainers; ++rank)
    work->at_work.insert(
        work->members.emplace_back(system.spawn(runtime::run_trainer, run_number, rank, chosen.servers, function))
            .address());
  auto over = work->over.get_future();
  auto watcher = system.spawn([work, group, trainers, this](caf::event_based_actor* self) -> caf::behavior {
    // A trainer that fails is heard of twice: it leaves its order unanswered, and it ends, with the reason.
    self->set_down_handler([work](const caf::down_msg& down) {
      if (down.reason != caf::exit_reason::user_shutdown) work->fail(down.reason);
      if (work->at_work.erase(down.source) > 0 && work->at_work.empty()) work->over.set_value();
    });
    for (const auto& one : servers) self->monitor(one);
    for (std::uint32_t rank = 0; rank < trainers; ++rank) {
      msg::train order;
      order.head = headers.next(0, 0);
      order.rank = rank;
      order.trainers = trainers;
      order.job = {{"seed", std::to_string(chosen.seed)}};
      order.group = group;
      const caf::actor_addr address = work->members[rank].address();
      self->monitor(work->members[rank]);
      self->request(work->members[rank], caf::infinite, std::move(order))
          .then(
              [work, rank, address](msg::trained& result) {
                for (const auto& other : work->members) runtime::tell_peer_ended(other, rank, result.steps);
                work->results[rank] = std::move(result);
                if (work->at_work.erase(address) > 0 && work->at_work.empty()) work->over.set_value();
              },
              [](const caf::error&) {});
    }
    return {[](const msg::stop&) {}};  // an actor that has no behavior ends when all have answered
  });
  over.wait();
  for (const auto& one : work->members) caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  for (const auto& one : {caf::actor_cast<caf::actor>(group), watcher})
    caf::anon_send_exit(one, caf::exit_reason::user_shutdown);
  if (work->failure) throw runtime::to_error(work->failure);
  return std::move(work->results);
}

cluster::cluster(int argc, char** argv) : parts_(std::make_unique<parts>(read_arguments(argc, argv))) {}
cluster::~cluster() = default;

troupe::server cluster::server(std::uint32_t rank) {
  if (rank >= parts_->servers.size())
    throw error(error_kind::input, fmt::format("server {}: there are {}; begin the program with --servers {}", rank,
                                               parts_->servers.size(), rank + 1));
  return {*this, rank};
}

remote_module<nn::embedding_bag> server::make_module(const nn::embedding_bag::options& options) const {
  constexpr const char* modes[] = {"sum", "mean", "max"};
  auto& parts = *cluster_->parts_;
  const auto made = parts.ask<msg::module_ref>(
      parts.servers[rank_],
      msg::instantiate{.head = parts.headers.next(0, 0),
                       .spec = {"EmbeddingBag",
                                {{"num_embeddings", std::to_string(options.num_embeddings)},
                                 {"embedding_dim", std::to_string(options.embedding_dim)},
                                 {"mode", modes[static_cast<std::size_t>(options.mode)]},
                                 {"seed", std::to_string(parts.chosen.seed)},
                                 {"table", std::to_string(parts.tables.size())},
                                 {"optimizer", "sgd"},
                                 {"lr", "0"},
                                 {"reduce", options.reduce == nn::reduction::sum ? "sum" : "mean"}}},
                       .trainers = 0});
  const model::table_spec spec{options.num_embeddings, options.embedding_dim,
                               static_cast<kernels::pooling>(options.mode), false};
  parts.tables.push_back(std::make_shared<const runtime::remote_table>(spec, std::vector{made}));
  return remote_module<nn::embedding_bag>(parts.tables.back());
}

run_summary cluster::run_function(std::uint32_t trainers, trainer_function function) {
  auto& all = *parts_;
  if (trainers == 0) throw error(error_kind::input, "run(0, ...): at least 1 trainer is needed");
  if (std::exchange(all.has_run, true)) throw error(error_kind::input, "run: a cluster runs once");
  for (const auto& one : all.servers)
    all.ask<msg::committed>(one, msg::expect_trainers{.head = all.headers.next(0, 0), .trainers = trainers});
  const auto begin = std::chrono::steady_clock::now();
  std::vector<msg::trained> results = all.train(trainers, std::move(function));
  for (std::uint32_t rank = 1; rank < trainers; ++rank)
    if (results[rank].dense_digest != results[0].dense_digest)
      throw error(error_kind::run, fmt::format("the dense weights of trainers 0 and {} differ", rank));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {.steps = results[0].steps,
          .seconds = seconds.count(),
          .weights_digest = all.weights_digest(results[0].steps, results[0].dense_digest)};
}

}  // namespace troupe
