#include "troupe/cluster.hpp"

#include <fmt/format.h>

#include <utility>

#include "actors/run_plan.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/program.hpp"
#include "troupe/runtime/program_plan.hpp"
#include "troupe/runtime/remote_table.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

struct cluster::parts {
  const runtime::program_order order;
  std::vector<actors::planned_table> tables = {};
  bool has_run = false;
};

cluster::cluster(int argc, char** argv, std::vector<option> own) {
  runtime::end_on_errors(runtime::program_name(argc, argv));
  parts_ = std::make_unique<parts>(parts{.order = runtime::read_program(argc, argv, own)});
}
cluster::~cluster() = default;

std::uint64_t cluster::seed() const { return parts_->order.seed; }

troupe::server cluster::server(std::uint32_t rank) {
  const std::uint32_t servers = parts_->order.servers;
  if (rank >= servers)
    throw error(error_kind::input,
                fmt::format("server {}: there are {}; begin the program with --servers {}", rank, servers, rank + 1));
  return {*this, rank};
}

remote_module<nn::embedding_bag> server::make_module(const nn::embedding_bag::options& options) const {
  auto& parts = *cluster_->parts_;
  if (parts.has_run) throw error(error_kind::input, "make: the cluster's run is over, or has begun");
  if (options.num_embeddings < 1 || options.embedding_dim < 1)
    throw error(error_kind::input, fmt::format("embedding_bag: num_embeddings {} and embedding_dim {}; both must be at "
                                               "least 1",
                                               options.num_embeddings, options.embedding_dim));
  constexpr const char* modes[] = {"sum", "mean", "max"};
  const model::table_spec spec{options.num_embeddings, options.embedding_dim,
                               static_cast<kernels::pooling>(options.mode), false};
  parts.tables.push_back({.spec = {"EmbeddingBag",
                                   {{"num_embeddings", std::to_string(options.num_embeddings)},
                                    {"embedding_dim", std::to_string(options.embedding_dim)},
                                    {"mode", modes[static_cast<std::size_t>(options.mode)]},
                                    {"seed", std::to_string(parts.order.seed)},
                                    {"table", std::to_string(parts.tables.size())},
                                    {"optimizer", "sgd"},
                                    {"lr", "0"},
                                    {"reduce", options.reduce == nn::reduction::sum ? "sum" : "mean"}}},
                          .rows = static_cast<std::uint64_t>(options.num_embeddings),
                          .dim = options.embedding_dim,
                          .servers = {rank_}});
  return remote_module<nn::embedding_bag>(std::make_shared<const runtime::remote_table>(spec, parts.tables.size() - 1));
}

run_summary cluster::run_function(std::uint32_t trainers, trainer_function function) {
  auto& all = *parts_;
  if (trainers == 0) throw error(error_kind::input, "run(0, ...): at least 1 trainer is needed");
  if (std::exchange(all.has_run, true)) throw error(error_kind::input, "run: a cluster runs once");
  std::vector<model::setting> settings = all.order.settings;
  settings.emplace_back("servers", std::to_string(all.order.servers));
  settings.emplace_back("trainers", std::to_string(trainers));
  const auto run = runtime::run_program(
      all.order, {.trainers = trainers,
                  .plan = runtime::plan_program(all.order.servers, trainers, settings, all.tables),
                  .make_trainer =
                      [function = std::move(function)](caf::actor_system& system, std::uint64_t number,
                                                       std::uint32_t rank, std::uint32_t servers) {
                        return runtime::make_trainer(system, number, rank, servers, function);
                      },
                  .settings = settings});
  return {.steps = run.steps, .seconds = run.seconds, .weights_digest = run.weights_digest, .stopped = run.stopped};
}

}  // namespace troupe
