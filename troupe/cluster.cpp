#include "troupe/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "actors/common/failure.hpp"
#include "actors/master/run_plan.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/clients.hpp"
#include "troupe/runtime/module_plans.hpp"
#include "troupe/runtime/program.hpp"
#include "troupe/runtime/program_plan.hpp"
#include "troupe/runtime/reference.hpp"
#include "troupe/runtime/registry.hpp"
#include "troupe/runtime/step_rules.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

struct cluster::parts {
  /// Adds a module to the plan, with a shard on each of the servers.
  std::shared_ptr<const runtime::reference> add(const std::vector<std::uint32_t>& servers,
                                                const runtime::module_plan& plan,
                                                model::table_split split = model::table_split::rows);
  /// Adds a table in the same way.
  std::shared_ptr<const runtime::reference> add(const std::vector<std::uint32_t>& servers,
                                                const nn::embedding_bag::options& options);

  const runtime::program_order order;
  std::vector<actors::planned_table> tables = {};
  std::set<std::string> labels = {};  ///< the labels of tables
  std::vector<runtime::client_function> clients = {};
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
  if (rank >= servers) throw error(error_kind::input, actors::no_server(rank, servers));
  return {*this, rank};
}

std::shared_ptr<const runtime::reference> cluster::parts::add(const std::vector<std::uint32_t>& servers,
                                                              const runtime::module_plan& plan,
                                                              model::table_split split) {
  if (has_run) throw error(error_kind::input, "make: the cluster's run is over, or has begun");
  tables.push_back({.spec = plan.spec, .rows = plan.rows, .dim = plan.dim, .servers = servers, .split = split});
  return runtime::reference::of_planned({plan.name, plan.label, plan.details}, servers, tables.size() - 1);
}

std::shared_ptr<const runtime::reference> cluster::parts::add(const std::vector<std::uint32_t>& servers,
                                                              const nn::embedding_bag::options& options) {
  const std::size_t place = tables.size();
  nn::embedding_bag::options one = options;
  if (servers.size() == 1) one.split = nn::table_split::rows;  // nothing is cut
  const auto plan = runtime::plan_table(one, order.seed, place, fmt::format("table {}", place));
  if (!labels.insert(plan.label).second)
    throw error(error_kind::input,
                fmt::format("embedding_bag: the name '{}' is another table's; choose another", plan.label));
  return add(servers, plan, one.split);
}

std::shared_ptr<const runtime::reference> cluster::make_table(const nn::embedding_bag::options& options) {
  const bool by_columns = options.split == nn::table_split::columns;
  const auto parts_max =
      by_columns ? options.embedding_dim : static_cast<std::size_t>(std::max<std::int64_t>(options.num_embeddings, 1));
  std::vector<std::uint32_t> servers(std::clamp<std::size_t>(parts_max, 1, parts_->order.servers));
  std::iota(servers.begin(), servers.end(), 0U);
  return parts_->add(servers, options);
}

std::shared_ptr<const runtime::reference> server::make_module(const detail::wanted_module& what) const {
  auto& parts = *cluster_->parts_;
  if (what.table != nullptr) return parts.add({rank_}, *what.table);
  const std::uint64_t place = parts.tables.size();
  const std::uint64_t key = model::random_key(parts.order.seed, model::random_stream::dense_weights, 0, place);
  return parts.add({rank_}, runtime::plan_module(*what.registered, key, place));
}

void cluster::add_client(std::function<task<>(troupe::client)> function) {
  if (parts_->has_run) throw error(error_kind::input, "client: the cluster's run is over, or has begun");
  parts_->clients.push_back(std::move(function));
}

run_summary cluster::run_function(const run_options& how, trainer_function function) {
  const std::uint32_t trainers = how.trainers;
  auto& all = *parts_;
  constexpr std::uint32_t trainers_max = 1024;
  if (trainers == 0 || trainers > trainers_max)
    throw error(error_kind::input,
                fmt::format("run({}, ...): must be between 1 and {} trainers", trainers, trainers_max));
  const auto rules = runtime::step_rules::of(how, all.order.own_options);
  if (rules.clip_norm > 0)
    for (const actors::planned_table& one : all.tables)
      if (one.split == model::table_split::columns)
        throw error(
            error_kind::input,
            fmt::format("run: clip_norm {}: adds up the squares of whole rows, which table_split::columns cuts; "
                        "use table_split::rows",
                        rules.clip_norm));
  if (std::exchange(all.has_run, true)) throw error(error_kind::input, "run: a cluster runs once");
  runtime::register_modules();
  std::vector<model::setting> settings = all.order.settings;
  settings.emplace_back("servers", std::to_string(all.order.servers));
  // A program may have an option of this name, often for the number of trainers.
  const std::string* own = model::value_of(settings, "trainers");
  if (own == nullptr || *own != std::to_string(trainers))
    settings.emplace_back(own == nullptr ? "trainers" : "trainers-of-run", std::to_string(trainers));
  for (const auto& one : rules.settings()) settings.push_back(one);
  const auto run = runtime::run_program(
      all.order,
      {.trainers = trainers,
       .plan = runtime::plan_program(
           {.servers = all.order.servers,
            .trainers = trainers,
            .settings = settings,
            .tables =
                {.all = all.tables, .accumulate = rules.accumulate, .staleness = rules.staleness, .servers_talk = true},
            .companion = std::make_shared<runtime::clients>(std::move(all.clients))},
           all.order.own_options, all.order.free_on_resume),
       .make_trainer =
           [function = std::move(function), rules](
               caf::actor_system& system, std::uint64_t number, std::uint32_t rank,
               std::uint32_t servers) { return runtime::make_trainer(system, number, rank, servers, function, rules); },
       .settings = settings});
  return {.steps = run.steps, .seconds = run.seconds, .weights_digest = run.weights_digest, .stopped = run.stopped};
}

}  // namespace troupe
