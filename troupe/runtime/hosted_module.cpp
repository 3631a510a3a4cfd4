#include "troupe/runtime/hosted_module.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/failure.hpp"
#include "base/digest.hpp"
#include "model/checkpoint/tensors.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

namespace {

/// A trainer that asks for more in one step has forgotten its optimizer.
constexpr std::size_t passes_max = 4096;

}  // namespace

hosted_module::hosted_module(std::shared_ptr<const nn::module> module, const hosting& how, server_desk& desk)
    : module_(std::move(module)),
      how_(how),
      desk_(desk),
      count_(nn::count_of(module_->parameters())),
      numbers_({{0, count_}}, kernels::host_device(), {}) {
  std::vector<float> parameters(count_);
  std::vector<float> buffers(nn::count_of(module_->buffers()));
  module_->initialize(how.key, parameters.data(), buffers.data());
  numbers_.start(parameters, buffers);
}

// -- calls ----------------------------------------------------------------------------

std::optional<actors::call_result> hosted_module::call(msg::call& what,
                                                       const std::function<actors::call_return()>& /*later*/) {
  msg::returned answer;
  try {
    detail::packed given = desk_.calls().unpack(std::move(what.fields), what.tensors, what.head.arrived != 0);
    detail::unpacker from(given);
    detail::packed result;
    if (what.method == "forward") {
      forward(what, from, result);
    } else if (what.method == "backward") {
      backward(what, from, result);
    } else if (what.method == "infer") {
      std::vector<float> kept;
      detail::pack(result, forward({.on = numbers_.compute()}, from.next_tensor(), kept));
    } else {
      throw error(error_kind::input, "there is no such method; a module has forward");
    }
    desk_.calls().put(std::move(result), what.head.sender, answer);
  } catch (...) {
    return error_in(fmt::format("{}.{} on server {}", module_->type(), what.method,
                                desk_.calls().number() - actors::server_number(0)));
  }
  return answer;
}

nn::pass_numbers hosted_module::numbers_of(const tensor& input, const tensor& output, std::vector<float>& kept) {
  return {numbers_.weights_data(), numbers_.buffers_data(), input, output.as<float>().data(), kept.data()};
}

tensor hosted_module::forward(const nn::pass& how, const tensor& input, std::vector<float>& kept) {
  tensor output(module_->output(input));
  kept.resize(module_->saved(input));
  module_->forward(how, numbers_of(input, output, kept));
  return output;
}

void hosted_module::forward(const msg::call& what, detail::unpacker& from, detail::packed& result) {
  const auto number = detail::unpack<std::uint64_t>(from);
  const auto key = detail::unpack<std::uint64_t>(from);
  auto& mine = passes_[{what.head.step, what.head.sender}];
  if (mine.size() >= passes_max)
    throw error(error_kind::input,
                fmt::format("{} passes in step {}, at most {} are kept; take an optimizer step with this module",
                            mine.size() + 1, what.head.step, passes_max));
  pass one{.key = key, .input = from.next_tensor()};
  one.output = forward(how_to(key), one.input, one.saved);
  detail::pack(result, one.output);
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
  pass& one = mine->second.at(number);
  if (!(grad.shape() == one.output.shape()) || grad.type() != dtype::f32)
    throw error(error_kind::input,
                fmt::format("a gradient {} of {}, the output is {} of float32", to_string(grad.shape()),
                            to_string(grad.type()), to_string(one.output.shape())));
  tensor grad_input;
  if (wants_input) grad_input = tensor(one.input.shape());
  std::vector<float>& sum = gradients_[when];
  const bool is_first = sum.empty();
  std::vector<float> more(is_first ? 0 : count_);
  if (is_first) sum.resize(count_);
  module_->backward(how_to(one.key), numbers_of(one.input, one.output, one.saved), grad.as<float>().data(),
                    wants_input ? grad_input.as<float>().data() : nullptr,
                    count_ == 0 ? nullptr
                    : is_first  ? sum.data()
                                : more.data());
  for (std::size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
  mine->second.erase(number);
  if (wants_input) detail::pack(result, std::move(grad_input));
}

// -- optimizer steps ------------------------------------------------------------------

caf::error hosted_module::set_optimizer(const std::string& optimizer, double lr) {
  auto parsed = model::parse_optimizer(optimizer, model::optimizer_use::dense);
  if (!parsed) return actors::make_failure(actors::errc::bad_input, parsed.error().message);
  parsed->lr = lr;
  if (optimizer_ && *parsed != *optimizer_)
    return actors::make_failure(actors::errc::bad_input,
                                "{}: the optimizer {} with lr {}, another trainer has chosen {} with lr {}",
                                module_->type(), optimizer, lr, model::to_string(*optimizer_), optimizer_->lr);
  if (std::exchange(optimizer_, *parsed)) return {};
  numbers_.set_optimizer(*parsed);
  return restored_ ? restore_from(*restored_) : caf::error();
}

/// No trainer is beyond the step that is collected: its passes wait for this one.
caf::error hosted_module::collect(std::span<const msg::bag_gradient* const> /*grads*/, actors::contributors from) {
  passes_.clear();
  const auto gradients = std::exchange(gradients_, {});
  if (!is_trained()) return {};
  std::vector<const float*> parts;
  for (const auto& [when, numbers] : gradients) parts.push_back(numbers.data());
  mean_ = msg::tensor_buffer(count_, 1);
  if (parts.empty() || from.batches == 0)
    std::fill_n(mean_.data(), count_, 0.0F);
  else
    kernels::host_stream().sum_in_rank_order(parts, count_, 1.0F / static_cast<float>(from.batches), mean_.data());
  return {};
}

model::exact_sum hosted_module::squared_norm() {
  model::exact_sum sum;
  if (!is_trained()) return sum;
  for (std::size_t i = 0; i < count_; ++i) sum.add(static_cast<double>(mean_.data()[i]) * mean_.data()[i]);
  return sum;
}

void hosted_module::apply(std::uint64_t update, float factor) {
  if (!is_trained()) return;
  if (factor != 1)
    for (std::size_t i = 0; i < count_; ++i) mean_.data()[i] *= factor;
  numbers_.open(update);
  for (std::uint32_t bucket = 0; bucket < numbers_.buckets(); ++bucket) {
    numbers_.share(bucket);
    const model::parameter_range range = numbers_.range(bucket);
    numbers_.take(bucket, mean_.part(range.first, range.count));
  }
}

caf::error hosted_module::finish() {
  if (!is_trained()) return {};
  kernels::non_finite found;
  kernels::host_stream().find_non_finite(count_, mean_.data(), &found);
  if (found.place >= count_) return {};
  return actors::make_failure(actors::errc::not_finite, "{}: gradient {} is {}; try a smaller learning rate",
                              module_->type(), found.place, found.number);
}

// -- state ----------------------------------------------------------------------------

std::vector<msg::parameter_info> hosted_module::parameters() const {
  std::vector<msg::parameter_info> all;
  for (const nn::parameter& one : module_->parameters())
    all.push_back({one.name, msg::dtype::f32, one.shape.count(), 1});
  return all;
}

named_tensors hosted_module::state_of() {
  named_tensors state;
  const auto add = [&state](const std::vector<nn::parameter>& tensors, const float* from) {
    for (const nn::parameter& one : tensors) {
      state.emplace_back(one.name, tensor::of<float>(one.shape, {from, one.shape.count()}));
      from += one.shape.count();
    }
  };
  add(module_->parameters(), numbers_.weights_data());
  add(module_->buffers(), numbers_.buffers_data());
  return state;
}

void hosted_module::load(const named_tensors& state) {
  const named_tensors now = state_of();
  std::vector<float> flat;
  for (const auto& [name, numbers] : now) {
    const auto given = std::ranges::find(state, name, [](const auto& one) { return one.first; });
    if (given == state.end())
      throw error(error_kind::input, fmt::format("load_state_dict of {}: {} is missing", module_->type(), name));
    if (!(given->second.shape() == numbers.shape()) || given->second.type() != dtype::f32)
      throw error(error_kind::input, fmt::format("load_state_dict of {}: {} is {} of {}, expected {} of float32",
                                                 module_->type(), name, to_string(given->second.shape()),
                                                 to_string(given->second.type()), to_string(numbers.shape())));
    const auto more = given->second.as<float>();
    flat.insert(flat.end(), more.begin(), more.end());
  }
  for (const auto& [name, numbers] : state)
    if (std::ranges::find(now, name, [](const auto& one) { return one.first; }) == now.end())
      throw error(error_kind::input, fmt::format("load_state_dict of {}: it has no {}", module_->type(), name));
  std::vector<msg::tensor> all = numbers_.state();
  const auto buffers = static_cast<std::ptrdiff_t>(flat.size() - count_);
  all.front() = msg::tensor::own(count_, 1, std::vector<float>(flat.begin(), flat.end() - buffers));
  if (buffers > 0) all.back() = msg::tensor::own(buffers, 1, std::vector<float>(flat.end() - buffers, flat.end()));
  numbers_.restore(all);
}

void hosted_module::move_to(const std::string& device) {
  if (device != "cpu")
    throw error(error_kind::input, fmt::format("{}: to(\"{}\"): modules of servers compute on the processor: \"cpu\"",
                                               module_->type(), device));
}

/// The parts that checkpoints keep, each [1, columns].
std::vector<std::pair<std::string, msg::tensor>> hosted_module::stored() {
  std::vector<msg::tensor> all = numbers_.state();
  std::vector<std::pair<std::string, msg::tensor>> parts;
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

/// Reads all that it has now; the optimizer's state comes once that is chosen.
caf::error hosted_module::restore_from(const model::checkpoint& from) {
  std::vector<msg::tensor> all;
  for (const auto& [name, numbers] : stored()) {
    std::vector<float> read(numbers.rows);
    const auto done = model::read_table(from, how_.table, name, {}, std::as_writable_bytes(std::span(read)));
    if (!done) return actors::make_failure(actors::errc::bad_input, done.error().message);
    all.push_back(msg::tensor::own(numbers.rows, 1, std::move(read)));
  }
  numbers_.restore(all);
  return {};
}

caf::expected<msg::tensor> hosted_module::row_digests(std::uint64_t /*first*/, std::uint64_t count) const {
  running_digest digest;
  digest.add(std::as_bytes(std::span(numbers_.weights_data(), count_)));
  if (const std::size_t buffers = nn::count_of(module_->buffers()); buffers > 0)
    digest.add(std::as_bytes(std::span(numbers_.buffers_data(), buffers)));
  return msg::tensor::own(count, 1, std::vector<std::uint64_t>(count, digest.value()));
}

}  // namespace troupe::runtime
