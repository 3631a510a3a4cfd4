#include "troupe/runtime/hosted_module.hpp"

#include <fmt/format.h>

#include "actors/common/device_tensor.hpp"
#include "actors/common/failure.hpp"
#include "base/digest.hpp"
#include "base/mapped.hpp"
#include "base/stop_grace.hpp"
#include "model/checkpoint/tensors.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/gradient_writers.hpp"
#include "troupe/runtime/module_size.hpp"
#include "troupe/runtime/module_state.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::runtime {

namespace {

/// The limit for one trainer and step: more means that it has forgotten its optimizer.
constexpr std::size_t passes_max = 4096;

}  // namespace

hosted_module::hosted_module(std::shared_ptr<const nn::module> module, const hosting& how, module_service& service)
    : claim_(claim_numbers(*module, *how.where)),
      module_(std::move(module)),
      tensors_(*module_),
      how_(how),
      service_(service),
      count_(nn::count_of(tensors_.parameters)) {
  check_names(*module_, fmt::format("table.{}", how.table));
  if (module_->synchronizes())
    throw error(
        error_kind::input,
        fmt::format("{}: a module in it synchronizes, which only replicas can (trainer::data_parallel); a server "
                    "computes each trainer's passes when they come; leave out `synchronized`",
                    module_->type()));
  const auto initial = in_module(*module_, "initialize", [&] { return nn::initial_numbers(*module_, how.key); });
  begin_on(*how.where);
  numbers_->start(initial.parameters, initial.buffers);
  keep_gradient(claim_, *module_);
}

/// Begins on a device. Drops the previous numbers, if any.
void hosted_module::begin_on(kernels::device& where) {
  check_runs_on(*module_, where, "--server-device");
  gradients_.clear();
  mean_ = {};
  found_ = {};
  numbers_.emplace(std::vector<nn::parameter_range>{{0, count_}}, where,
                   actors::trained_parameters::options{.names = tensors_.parameters});
  mean_.resize(numbers_->compute(), count_);
  found_.resize(numbers_->compute(), 1);
}

// -- calls ----------------------------------------------------------------------------

std::optional<actors::call_result> hosted_module::call(msg::call& what,
                                                       const std::function<actors::call_return()>& /*later*/) {
  msg::returned answer;
  const code_under_way under_way([this, &what] {
    return open_code{.who = fmt::format("server {}", service_.calls().number() - actors::server_number(0)),
                     .what = fmt::format("{}.{}", module_->type(), what.method),
                     .is_awaited = false};
  });
  try {
    detail::packed given = service_.calls().unpack(std::move(what.fields), what.tensors, what.head.arrived != 0);
    detail::unpacker from(given);
    detail::packed result;
    if (what.method == "forward") {
      forward(what, from, result);
    } else if (what.method == "backward") {
      backward(what, from, result);
    } else if (what.method == "infer") {
      detail::pack(result, module_pass(*module_, tensors_, *numbers_, from.next_tensor(), {}).output());
    } else {
      throw error(error_kind::input, "there is no such method; a module has forward");
    }
    service_.calls().put(std::move(result), what.head.sender, answer);
  } catch (...) {
    return error_in(fmt::format("{}.{} on server {}", module_->type(), what.method,
                                service_.calls().number() - actors::server_number(0)));
  }
  return answer;
}

void hosted_module::forward(const msg::call& what, detail::unpacker& from, detail::packed& result) {
  const auto number = detail::unpack<std::uint64_t>(from);
  const auto key = detail::unpack<std::uint64_t>(from);
  auto& mine = passes_[{what.head.step, what.head.sender}];
  if (mine.size() >= passes_max)
    throw error(error_kind::input,
                fmt::format("{} passes in step {}, at most {} are kept; take an optimizer step with this module",
                            mine.size() + 1, what.head.step, passes_max));
  numbers_->keep_buffers();
  module_pass one(*module_, tensors_, *numbers_, from.next_tensor(), {.training = true, .key = key});
  detail::pack(result, one.output());
  const auto weight = one.spoilt_output().empty() ? std::nullopt : numbers_->find_in_weights();
  detail::pack(result, weight ? weight->description(spoilt_advice) : std::string());
  mine.insert_or_assign(number, std::move(one));
}

void hosted_module::backward(const msg::call& what, detail::unpacker& from, detail::packed& result) {
  const auto number = detail::unpack<std::uint64_t>(from);
  const auto wants_input = detail::unpack<bool>(from);
  const tensor grad = from.next_tensor();
  const step_of when{what.head.step, what.head.sender};
  const auto mine = passes_.find(when);
  if (mine == passes_.end() || !mine->second.contains(number))
    throw error(error_kind::input,
                fmt::format("a gradient of a pass of step {}, whose optimizer step is taken", what.head.step));
  module_pass& one = mine->second.at(number);
  const tensor& output = one.output();
  if (!(grad.shape() == output.shape()) || grad.type() != dtype::f32)
    throw error(error_kind::input,
                fmt::format("a gradient {} of {}, the output is {} of float32", to_string(grad.shape()),
                            name_of(grad.type()), to_string(output.shape())));
  if (wants_input) detail::pack(result, one.backward_input(grad));
  if (count_ > 0) {
    summed_gradient sum(numbers_->compute(), gradients_[when.second], count_);
    one.backward_parameters(grad, module_->ranges(), sum);
  }
  mine->second.erase(number);
}

// -- optimizer steps ------------------------------------------------------------------

caf::error hosted_module::set_optimizer(const msg::set_optimizer& chosen) {
  const auto parsed = actors::optimizer_of(chosen, model::optimizer_use::dense);
  if (!parsed) return parsed.error();
  if (optimizer_ && *parsed != *optimizer_) return actors::other_optimizer(module_->type(), chosen, *optimizer_);
  if (optimizer_) return {};
  if (const auto fault = model::device_fault(*parsed, numbers_->compute().device(), "--server-device"))
    return actors::make_failure(actors::errc::bad_input, "{}: {}", module_->type(), *fault);
  model::memory_claim of_state;
  try {
    of_state = claim_state(*module_, *parsed, numbers_->compute().device());
    claim_of_mean_ = claim_mean(*module_, numbers_->compute().device());
  } catch (const error& e) {
    return actors::make_failure(actors::errc::out_of_memory, e.what());
  }
  optimizer_ = *parsed;
  numbers_->set_optimizer(*parsed);
  return restored_ ? restore_from(*restored_) : caf::error();
}

/// No trainer is past the step that is collected: its passes wait for this one.
caf::error hosted_module::collect(std::span<const msg::bag_gradient* const> /*grads*/, actors::contributors from) {
  passes_.clear();
  const auto gradients = std::exchange(gradients_, {});
  if (!is_trained()) return {};
  const auto parts = mapped<const float*>(gradients, [](const auto& one) { return one.second.data(); });
  kernels::stream& on = numbers_->compute();
  if (parts.empty() || from.batches == 0)
    on.fill(count_, 0.0F, mean_.data());
  else
    on.sum_in_rank_order(parts, count_, 1.0F / static_cast<float>(from.batches), mean_.data());
  on.synchronize();
  return {};
}

model::exact_sum hosted_module::squared_norm() {
  model::exact_sum sum;
  if (!is_trained()) return sum;
  std::vector<float> copy;
  for (const double x : kernels::on_host<float>(numbers_->compute(), mean_.data(), count_, copy)) sum.add(x * x);
  return sum;
}

void hosted_module::apply(std::uint64_t update, float factor) {
  numbers_->forget_buffers();
  if (!is_trained()) return;
  kernels::stream& on = numbers_->compute();
  if (factor != 1) on.multiply(count_, factor, mean_.data());
  numbers_->open(update);
  for (std::uint32_t bucket = 0; bucket < numbers_->gradient_bucket_count(); ++bucket) {
    numbers_->share(bucket, 0);
    const auto [first, count] = numbers_->range(bucket);
    const actors::device_matrix part{&on.device(), count, 1, {mean_.data() + first, 1}, mean_.owner()};
    numbers_->take(bucket, actors::on_device(part, on.record()));
  }
}

caf::error hosted_module::finish() {
  if (!is_trained()) return {};
  kernels::stream& on = numbers_->compute();
  on.find_non_finite(count_, mean_.data(), found_.data());
  found_.download(on);
  numbers_->synchronize();
  const kernels::non_finite& found = *found_.host();
  if (found.place >= count_) return {};
  for (const nn::parameter& one : nn::placed(module_->parameters()))
    if (found.place < one.first + one.count())
      return actors::make_failure(
          actors::errc::not_finite, "{}: the gradient of {} {} is {} (number {} of {}); try a smaller learning rate",
          module_->type(), one.name, to_string(one.shape), found.number, found.place - one.first, one.count());
  return {};
}

// -- state ----------------------------------------------------------------------------

std::vector<msg::parameter_info> hosted_module::parameters() const {
  return mapped(module_->parameters(), [](const nn::parameter& one) {
    return msg::parameter_info{one.name, dtype::f32, one.shape.count(), 1};
  });
}

named_tensors hosted_module::state_of() { return runtime::state_of(*module_, *numbers_); }

void hosted_module::load(const named_tensors& state) {
  const flat_state read = read_state(*module_, state);
  numbers_->replace(read.parameters.as<float>(), read.buffers.as<float>());
}

void hosted_module::check(const named_tensors& state) const { read_state(*module_, state); }

void hosted_module::move_to(const std::string& device) {
  kernels::device& where = service_.device(device);
  if (!passes_.empty())
    throw error(error_kind::input, fmt::format("{}: to(\"{}\"): passes of an optimizer step are under way; move it "
                                               "between steps, after a barrier of all trainers",
                                               module_->type(), device));
  check_runs_on(*module_, where, "--server-device");
  if (optimizer_)
    if (const auto fault = model::device_fault(*optimizer_, where, "--server-device"))
      throw error(error_kind::input, fmt::format("{}: to(\"{}\"): {}", module_->type(), device, *fault));
  const std::vector<msg::tensor> all = numbers_->state();
  const auto buffers = nn::count_of(module_->buffers());
  if (!where.is_host()) {  // a device allocates its memory at once
    claim_ = {};
    claim_of_mean_ = {};
  }
  begin_on(where);
  numbers_->start(all.front().as<float>(), buffers > 0 ? all.back().as<float>() : std::span<const float>());
  if (optimizer_) numbers_->set_optimizer(*optimizer_);
  numbers_->restore(all);
}

/// The parts that checkpoints contain, each [1, columns].
msg::state_entries hosted_module::stored() {
  std::vector<msg::tensor> all = numbers_->state();
  msg::state_entries parts;
  const bool has_buffers = !module_->buffers().empty();
  for (std::size_t i = 0; i < all.size(); ++i)
    parts.emplace_back(i == 0                               ? "weight"
                       : has_buffers && i + 1 == all.size() ? "buffers"
                                                            : fmt::format("state.{}", i - 1),
                       std::move(all[i]));
  return parts;
}

caf::expected<actors::remote_module::saved> hosted_module::save(const std::string& folder) {
  return save_parts(folder, how_.table, stored());
}

caf::error hosted_module::restore(const model::checkpoint& from) {
  restored_ = from;
  return restore_from(from);
}

/// Reads all parts that exist now; the optimizer's state follows once the optimizer is chosen.
caf::error hosted_module::restore_from(const model::checkpoint& from) {
  std::vector<msg::tensor> all;
  for (const auto& [name, numbers] : stored()) {
    std::vector<float> read(numbers.rows);
    result<void> done;
    if (!read.empty()) done = model::read_table(from, how_.table, name, {}, std::as_writable_bytes(std::span(read)));
    if (!done) return actors::make_failure(actors::errc::bad_input, done.error().message);
    all.push_back(msg::tensor::own(numbers.rows, 1, std::move(read)));
  }
  numbers_->restore(all);
  return {};
}

caf::expected<msg::tensor> hosted_module::row_digests(std::uint64_t /*first*/, std::uint64_t count) const {
  running_digest digest;
  std::vector<float> copy;
  const auto add = [&](const float* numbers, std::size_t size) {
    digest.add(std::as_bytes(kernels::on_host(numbers_->compute(), numbers, size, copy)));
  };
  add(numbers_->weights_data(), count_);
  add(numbers_->buffers_data(), nn::count_of(module_->buffers()));
  return msg::tensor::own(count, 1, std::vector<std::uint64_t>(count, digest.value()));
}

}  // namespace troupe::runtime
