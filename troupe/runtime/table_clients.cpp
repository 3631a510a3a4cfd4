#include "troupe/runtime/table_clients.hpp"

#include <algorithm>
#include <iterator>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/deadline.hpp"
#include "troupe/runtime/errors.hpp"

namespace troupe::runtime {

const reference& reference_of(const trained& one) {
  if (const auto* table = std::get_if<std::shared_ptr<const remote_table>>(&one)) return *(*table)->reference();
  return *std::get<reference_ptr>(one);
}

future<tensor> table_clients::look_up(tape& on, const std::shared_ptr<const remote_table>& table,
                                      std::span<const std::int64_t> indices, std::span<const std::int64_t> offsets,
                                      std::optional<std::chrono::milliseconds> deadline) {
  auto samples = std::make_shared<model::batch>();
  samples->size = offsets.size();
  samples->tables.push_back({{indices.begin(), indices.end()}, {offsets.begin(), offsets.end()}, {}});
  table->check_lookup("forward", samples->tables.front());
  auto [known, is_new] = clients_.try_emplace(table);
  if (is_new)
    known->second.client = actors::sparse_client(table->spec(), {assigned_.shards_of(*table->reference())},
                                                 {.wire = table->wire(),
                                                  .remote = assigned_.remote,
                                                  .split = table->split(),
                                                  .table_text = table->reference()->description()});
  const actors::sparse_client& client = known->second.client;
  auto asked = std::make_shared<lookup>(table, known->second, std::move(samples));
  auto coming = asked->answer().get_future();
  const caf::timespan timeout =
      deadline ? std::min<caf::timespan>(bounded(*deadline), assigned_.timeout) : assigned_.timeout;
  on.add({}, asked);
  actors::sparse_client::context& c = asked->asked();
  for (std::size_t s = 0; s < client.servers(); ++s) {
    if (c.lookups[s].empty()) continue;
    const std::uint64_t at_step = step_of(client.rank(s));
    requests_.ask<msg::rows>(
        client.server(s), {.number = actors::server_number(client.rank(s)), .timeout = timeout},
        client.ask(c, s, requests_.actor().trace.next(at_step), on.is_training() ? assigned_.rules.staleness : 0),
        [asked, s, dim = table->dim(), stops = !assigned_.rules.skips(), under_way = under_way_](msg::rows& rows) {
          actors::sparse_client::context& all = asked->asked();
          actors::sparse_client::take(all, s, std::move(rows));
          if (all.unanswered > 0) return;
          auto found = pooled_rows(asked->client(), all, dim);
          if (!found) return asked->answer().fail(to_error(found.error()));
          if (stops)
            if (const caf::error wrong = asked->client().check_rows(all)) return asked->answer().fail(to_error(wrong));
          asked->answer().set(tape::with_numbers(*asked, std::move(*found)));
        },
        [asked, timeout, own_deadline = timeout < assigned_.timeout](const caf::error& why) {
          const bool is_own = own_deadline && why == actors::errc::timeout;
          asked->answer().fail(is_own ? not_in_time(asked->table().reference()->description("forward"), timeout)
                                      : to_error(why));
        });
  }
  on.finish_passed();  // while the servers work
  return coming;
}

std::vector<table_clients::receiver>& table_clients::servers_of(const std::vector<trained>& members) {
  receivers_.clear();
  for (const trained& one : members) {
    if (std::holds_alternative<std::shared_ptr<replica>>(one)) continue;
    assigned_.for_each_shard(reference_of(one), [&](std::uint32_t rank, const msg::parameter_server_actor& server) {
      const auto at = std::ranges::lower_bound(receivers_, rank, {}, &receiver::rank);
      if (at == receivers_.end() || at->rank != rank) receivers_.insert(at, {rank, server, {}});
    });
  }
  return receivers_;
}

void table_clients::send_gradients(const tape& with, const std::vector<trained>& members, bool orders_step,
                                   bool counts_batch) {
  const actors::trainer_context& actor = requests_.actor();
  std::vector<receiver>& servers = servers_of(members);
  for (const trained& one : members) {
    const auto* table = std::get_if<std::shared_ptr<const remote_table>>(&one);
    if (table == nullptr || !counts_batch) continue;
    for (const auto& made : with.nodes()) {
      if (made->belongs_to() != table->get()) continue;
      const auto* looked_up = static_cast<const lookup*>(made.get());
      auto gradients = looked_up->gradients();
      for (std::size_t s = 0; s < gradients.size(); ++s) {
        const auto to = std::ranges::lower_bound(servers, looked_up->client().rank(s), {}, &receiver::rank);
        if (to->gradient.tables.empty())
          to->gradient.tables = std::move(gradients[s]);
        else
          std::ranges::move(gradients[s], std::back_inserter(to->gradient.tables));
      }
    }
  }
  for (receiver& one : servers) {
    one.gradient.head = actor.trace.next(++steps_[one.rank]);
    one.gradient.rank = actor.rank;
    one.gradient.has_batch = with.has_gone_back() && counts_batch;
    one.gradient.step = orders_step;
    actor.self->send(one.server, std::move(one.gradient));
  }
}

template <class Answer>
void table_clients::ask_servers(const std::vector<trained>& members, const completion_ptr& all, auto message_at,
                                auto on_answer) {
  for (const receiver& one : servers_of(members)) {
    all->begin_part();
    requests_.ask<Answer>(
        one.server, {.number = actors::server_number(one.rank), .timeout = assigned_.timeout},
        message_at(requests_.actor().trace.next(steps_[one.rank])),
        [all, on_answer](Answer& answer) {
          if (on_answer(answer)) return all->end_part();
          all->fail(error(error_kind::run, "a server's squared norm of the gradient is not a sum"));
        },
        [all](const caf::error& why) { all->fail(to_error(why)); });
  }
}

void table_clients::ask_for_norms(const std::vector<trained>& members, const completion_ptr& all) {
  norm_ = {};
  ask_servers<msg::squared_norm>(
      members, all,
      [this](const msg::header& head) {
        return msg::gradient_norm{head, requests_.actor().rank};
      },
      [this](const msg::squared_norm& share) {
        const auto sum = model::exact_sum::from(share.limbs.as<std::int64_t>());
        if (sum) norm_.merge(*sum);
        return sum.has_value();
      });
}

void table_clients::order_step(const std::vector<trained>& members, const actors::step_order& order,
                               const completion_ptr& all) {
  ask_servers<msg::committed>(
      members, all,
      [this, order](const msg::header& head) {
        return msg::optimizer_step{head, requests_.actor().rank, order.apply, order.factor};
      },
      [](const msg::committed&) { return true; });
}

std::vector<std::uint64_t> table_clients::steps() const {
  std::vector<std::uint64_t> steps(1);
  for (const auto& [server, count] : steps_) {
    steps.resize(std::max<std::size_t>(steps.size(), server + std::size_t{1}));
    steps[server] = count;
  }
  return steps;
}

void table_clients::resume(const std::vector<std::uint64_t>& steps) {
  for (std::uint32_t server = 0; server < steps.size(); ++server)
    if (steps[server] > 0) steps_[server] = steps[server];
  // If the run is resumed with more servers, new ones with a shard of a table begin at the steps of the others.
  for (const auto& shards : assigned_.modules) {
    std::uint64_t most = 0;
    for (const msg::module_ref& shard : shards)
      if (shard.rank < steps.size()) most = std::max(most, steps[shard.rank]);
    for (const msg::module_ref& shard : shards)
      if (most > 0) steps_.try_emplace(shard.rank, most);
  }
}

}  // namespace troupe::runtime
