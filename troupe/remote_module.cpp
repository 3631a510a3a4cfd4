#include "troupe/remote_module.hpp"

#include <fmt/format.h>

#include "base/mapped.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/remote_server.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/module_plans.hpp"
#include "troupe/runtime/module_service.hpp"
#include "troupe/runtime/remote_pass.hpp"
#include "troupe/runtime/remote_table.hpp"
#include "troupe/runtime/table_parts.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

namespace {

using runtime::method_call;
using runtime::on_result;

/// Returns a callback that completes a promise without a value.
on_result to_nothing(const std::shared_ptr<promise<>>& answer) {
  return [answer](detail::packed& /*result*/, const std::exception_ptr& thrown) {
    if (thrown)
      answer->fail(thrown);
    else
      answer->set();
  };
}

template <class T>
on_result to_value(const std::shared_ptr<promise<T>>& answer) {
  return [answer](detail::packed& result, const std::exception_ptr& thrown) {
    if (thrown) return answer->fail(thrown);
    try {
      detail::unpacker from(result);
      answer->set(detail::unpack<T>(from));
    } catch (...) {
      answer->fail(std::current_exception());
    }
  };
}

void check_handle(const runtime::reference_ptr& receiver, const char* method) {
  if (receiver == nullptr) throw error(error_kind::input, fmt::format("{}: a handle of no module", method));
}

/// Returns a call of a shard's server about the module; in a trainer that trains there, after its last optimizer step.
method_call about(const runtime::reference_ptr& receiver, const char* method, std::chrono::milliseconds deadline,
                  std::size_t shard = 0) {
  check_handle(receiver, method);
  method_call order{.receiver = receiver,
                    .method = method,
                    .deadline = deadline,
                    .of_server = true,
                    .about_module = true,
                    .shard = shard};
  if (auto* const here = runtime::actor_executor::here())
    if (auto* const trainer = here->owner().trainer())
      order.step = trainer->tables().step_after_last(receiver->server(shard));
  return order;
}

using on_results = std::function<void(std::vector<detail::packed>&)>;

/// Calls the servers of all `shards`, each by `order_of(shard)`. Passes their results to `then`; the first error of a
/// call, or of `then`, fails `answer`.
template <class Answer>
void call_all(std::size_t shards, const auto& order_of, const std::shared_ptr<Answer>& answer, const on_results& then) {
  struct gathered {
    std::vector<detail::packed> results;
    std::size_t left;
  };
  const auto all = std::make_shared<gathered>(gathered{std::vector<detail::packed>(shards), shards});
  for (std::size_t shard = 0; shard < shards; ++shard)
    runtime::call(order_of(shard), [=](detail::packed& result, const std::exception_ptr& thrown) {
      if (thrown) return answer->fail(thrown);
      all->results[shard] = std::move(result);
      if (--all->left > 0) return;
      try {
        then(all->results);
      } catch (...) {
        answer->fail(std::current_exception());
      }
    });
}

}  // namespace

future<std::vector<nn::parameter>> remote_handle::parameters() const {
  auto order = about(reference_, "parameters", deadline_);
  order.step = 0;  // no step changes them
  auto answer = std::make_shared<promise<std::vector<nn::parameter>>>();
  auto coming = answer->get_future();
  runtime::call(std::move(order), [answer, of = reference_](detail::packed& result, const std::exception_ptr& thrown) {
    if (thrown) return answer->fail(thrown);
    try {
      detail::unpacker from(result);
      auto all = runtime::to_parameters(detail::unpack<std::vector<runtime::named_lengths>>(from));
      if (of->shards() > 1) all.at(0).shape = runtime::table_shape(*of);  // the answer describes its first shard
      answer->set(std::move(all));
    } catch (...) {
      answer->fail(std::current_exception());
    }
  });
  return coming;
}

future<named_tensors> remote_handle::state_dict() const { return ask_for_state(false); }

future<named_tensors> remote_handle::ask_for_state(bool with_optimizer) const {
  check_handle(reference_, "state_dict");
  auto answer = std::make_shared<promise<named_tensors>>();
  auto coming = answer->get_future();
  const auto order_of = [&](std::size_t shard) {
    auto order = about(reference_, "state_dict", deadline_, shard);
    detail::pack(order.arguments, with_optimizer);
    return order;
  };
  call_all(reference_->shards(), order_of, answer, [answer, of = reference_](std::vector<detail::packed>& results) {
    answer->set(runtime::join_parts(*of, mapped(results, [](detail::packed& one) {
      detail::unpacker from(one);
      return detail::unpack<named_tensors>(from);
    })));
  });
  return coming;
}

future<> remote_handle::load_state_dict(const named_tensors& state) const {
  check_handle(reference_, "load_state_dict");
  auto place = runtime::place_in_run::unknown;
  if (auto* const here = runtime::actor_executor::here())
    if (auto* const trainer = here->owner().trainer())
      place = trainer->kept().does_again() ? runtime::place_in_run::before_saved : runtime::place_in_run::new_ground;
  const auto order_of = [receiver = reference_, deadline = deadline_, place,
                         parts = runtime::cut_state(*reference_, state)](const char* method, std::size_t shard) {
    auto order = about(receiver, method, deadline, shard);
    detail::pack(order.arguments, receiver->description("load_state_dict"));
    detail::pack(order.arguments, static_cast<std::uint8_t>(place));
    detail::pack(order.arguments, parts[shard]);
    return order;
  };
  auto answer = std::make_shared<promise<>>();
  auto coming = answer->get_future();
  const std::size_t shards = reference_->shards();
  const auto load = [order_of, answer, shards] {
    call_all(
        shards, [&](std::size_t shard) { return order_of("load_state_dict", shard); }, answer,
        [answer](std::vector<detail::packed>& /*nothing*/) { answer->set(); });
  };
  if (shards == 1) {
    load();
    return coming;
  }
  // No shard is loaded before all have accepted theirs.
  call_all(
      shards, [&](std::size_t shard) { return order_of("check_state_dict", shard); }, answer,
      [load](std::vector<detail::packed>& /*nothing*/) { load(); });
  return coming;
}

future<> remote_handle::to(const std::string& device) const {
  auto order = about(reference_, "to", deadline_);
  detail::pack(order.arguments, device);
  auto answer = std::make_shared<promise<>>();
  auto coming = answer->get_future();
  runtime::call(std::move(order), to_nothing(answer));
  return coming;
}

void remote_handle::release() const {
  if (reference_) reference_->release();
}

void remote_handle::call_by_name(const std::string& method, detail::packed arguments, on_result then) const {
  runtime::call({.receiver = reference_, .method = method, .arguments = std::move(arguments), .deadline = deadline_},
                std::move(then));
}

void remote_handle::not_described() const {
  throw error(error_kind::input, fmt::format("{}: a method that its describe does not add",
                                             reference_ ? reference_->description() : "a handle of no module"));
}

// -- modules of networks --------------------------------------------------------------

future<tensor> detail::forward_remote(context& in, const std::shared_ptr<const runtime::reference>& receiver,
                                      std::chrono::milliseconds deadline, const tensor& input) {
  return runtime::remote_pass::begin(in.tape(), receiver, deadline, input);
}

future<tensor> detail::infer_remote(const std::shared_ptr<const runtime::reference>& receiver,
                                    std::chrono::milliseconds deadline, const tensor& input) {
  method_call order{.receiver = receiver, .method = "infer", .deadline = deadline};
  detail::pack(order.arguments, input);
  auto answer = std::make_shared<promise<tensor>>();
  auto coming = answer->get_future();
  runtime::call(std::move(order), to_value(answer));
  return coming;
}

// -- tables ---------------------------------------------------------------------------

remote_module<nn::embedding_bag>::remote_module(std::shared_ptr<const runtime::remote_table> of)
    : remote_handle(of->reference()), table_(std::move(of)) {}

remote_module<nn::embedding_bag>::remote_module(std::shared_ptr<const runtime::reference> of)
    : remote_module(std::make_shared<const runtime::remote_table>(std::move(of))) {}

future<tensor> remote_module<nn::embedding_bag>::forward(context& in, std::span<const std::int64_t> indices,
                                                         std::span<const std::int64_t> offsets) const {
  if (!table_) throw error(error_kind::input, "forward: a handle of no module");
  reference_->check_usable("forward");
  return in.tape().owner().tables().look_up(in.tape(), table_, indices, offsets, lookup_deadline_);
}

future<tensor> remote_module<nn::embedding_bag>::rows(std::span<const std::int64_t> indices,
                                                      std::span<const std::int64_t> offsets) const {
  check_handle(reference_, "rows");
  auto samples = std::make_shared<model::batch>();
  samples->size = offsets.size();
  samples->tables.push_back({{indices.begin(), indices.end()}, {offsets.begin(), offsets.end()}, {}});
  table_->check_lookup("rows", samples->tables.front());
  std::vector<msg::module_ref> shards(reference_->shards());
  for (std::uint32_t shard = 0; shard < shards.size(); ++shard) shards[shard].rank = shard;
  struct lookup {
    actors::sparse_client client;
    actors::sparse_client::context asked;
  };
  const auto all = std::make_shared<lookup>(
      lookup{actors::sparse_client(table_->spec(), {std::move(shards)}, {.split = table_->split()}), {}});
  all->asked = all->client.prepare(0, std::move(samples));
  const auto order_of = [&](std::size_t shard) {
    auto order = about(reference_, "rows", deadline_, shard);
    order.step = 0;
    const msg::lookup wanted = all->client.ask(all->asked, shard, {}, 0);
    for (const msg::blob& numbers : {wanted.tables.front().indices, wanted.tables.front().offsets}) {
      const auto one = numbers.as<std::int64_t>();
      detail::pack(order.arguments, tensor::of<std::int64_t>({one.size()}, one));
    }
    return order;
  };
  auto answer = std::make_shared<promise<tensor>>();
  auto coming = answer->get_future();
  call_all(reference_->shards(), order_of, answer, [=, dim = table_->dim()](std::vector<detail::packed>& results) {
    for (std::size_t shard = 0; shard < results.size(); ++shard) {
      detail::unpacker from(results[shard]);
      const tensor rows = from.next_tensor();
      msg::rows found;
      found.tables.emplace_back(rows.type(), rows.shape()[0], rows.shape()[1], runtime::column_of(rows).bytes);
      actors::sparse_client::take(all->asked, shard, std::move(found));
    }
    auto pooled = runtime::pooled_rows(all->client, all->asked, dim);
    if (!pooled) throw runtime::to_error(pooled.error());
    answer->set(std::move(*pooled));
  });
  return coming;
}

// -- making ---------------------------------------------------------------------------

void remote_server::make_module(const detail::wanted_module& what, made then) const {
  auto* const here = runtime::actor_executor::here();
  if (here == nullptr) throw error(error_kind::input, "make: only tasks make modules during a run");
  runtime::caller& by = here->owner();
  const auto* const trainer = by.trainer();
  const std::uint64_t number = by.next_made();
  const std::uint64_t seed = trainer != nullptr ? trainer->seed() : 1;
  const std::uint64_t key =
      model::random_key(seed, model::random_stream::dense_weights, 1 + std::uint64_t{by.number()}, number);
  const auto plan = what.table != nullptr ? runtime::plan_table(*what.table, seed, key % 1'000'000'007, "")
                                          : runtime::plan_module(*what.registered, key, 0);
  const auto planned =
      std::make_shared<const runtime::reference>(runtime::module_identity{plan.name}, rank_, 0, nullptr);
  method_call order{.receiver = planned, .method = "make", .of_server = true};
  detail::pack(order.arguments, plan.spec.type);
  detail::pack(order.arguments, plan.is_trained && trainer != nullptr ? trainer->trainers() : std::uint32_t{0});
  msg::arguments all = plan.spec.args;
  const runtime::step_rules rules = trainer != nullptr ? trainer->rules() : runtime::step_rules();
  if (rules.accumulate > 1) all.emplace_back(runtime::accumulate_of_run, std::to_string(rules.accumulate));
  if (rules.staleness > 0) all.emplace_back(runtime::staleness_of_run, std::to_string(rules.staleness));
  detail::pack(order.arguments, all);
  runtime::call(std::move(order), [then = std::move(then), rank = rank_, plan, holder = by.executor()](
                                      detail::packed& result, const std::exception_ptr& thrown) {
    if (thrown) return then(nullptr, thrown);
    detail::unpacker from(result);
    const auto module = detail::unpack<std::uint64_t>(from);
    then(std::make_shared<const runtime::reference>(runtime::module_identity{plan.name, plan.label, plan.details}, rank,
                                                    module, holder),
         nullptr);
  });
}

}  // namespace troupe
