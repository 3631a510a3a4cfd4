#include "troupe/runtime/replica.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "actors/collective/bucket_window.hpp"
#include "base/assert.hpp"
#include "base/text.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/gradient_writers.hpp"
#include "troupe/runtime/module_pass.hpp"
#include "troupe/runtime/module_size.hpp"
#include "troupe/runtime/module_state.hpp"
#include "troupe/runtime/pass_means.hpp"
#include "troupe/runtime/pipeline_stage.hpp"
#include "troupe/runtime/tensor_slice.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

/// A replica's module, applied to an input in a training context.
class application final : public node {
 public:
  application(replica& of, const tape& in, const tensor& input, const replica::pass_options& how, std::uint64_t key)
      : replica_(of),
        source_(in.maker_of(input)),
        goes_to_input_(source_ != nullptr || (of.slice_ != nullptr && input.type() == dtype::f32)),
        others_(in.owner(), of),
        pass_(in_module(*of.module_, "forward", [&] {
          const bool has_others = of.is_synchronized_ && of.part() == nullptr && in.owner().trainers() > 1;
          const module_pass::mode mode{.training = true,
                                       .key = key,
                                       .ranks = has_others ? &others_ : nullptr,
                                       .slices = of.slice_.get(),
                                       .weights = how.weights};
          return module_pass(*of.module_, of.tensors_, of.numbers_, input, mode, how.state);
        })) {
    others_.turn();
  }

  sequence_part made() const { return {pass_->output(), pass_->next_state()}; }
  const void* belongs_to() const override { return &replica_; }

  std::string spoilt() const override {
    if (!pass_) return {};
    if (const std::string input = pass_->spoilt_input(); !input.empty())
      return fmt::format("the input of {} {}; {}", replica_.label(), input,
                         source_ == nullptr ? given_spoilt : spoilt_advice);
    if (const auto weight = replica_.numbers_.find_in_weights())
      return fmt::format("{}: {}", replica_.label(), weight->description(spoilt_advice));
    const std::string there = pass_->spoilt_output();
    return there.empty() ? ""
                         : fmt::format("{} makes of finite numbers an output that {}; {}", replica_.label(), there,
                                       spoilt_advice);
  }

  void backward(tape& on) override {
    if (!goes_to_input_) return;
    tensor of_input = in_module(*replica_.module_, "backward", [&] { return pass_->backward_input(grad); });
    if (source_ != nullptr) on.give(*source_, std::move(of_input));
  }

  void backward_parameters(nn::gradient_places& to) {
    in_module(*replica_.module_, "backward_parameters",
              [&] { pass_->backward_parameters(grad, replica_.ranges_, to); });
    free();
  }

  void finish(tape& on) override {
    if (replica_.numbers_.parameter_count() == 0) return free();
    summed_gradient sum(replica_.numbers_.compute(), on.finished_gradient(replica_),
                        replica_.numbers_.parameter_count());
    backward_parameters(sum);
  }

 private:
  void free() {
    pass_.reset();
    grad = {};
  }

  replica& replica_;
  node* source_;  ///< computed the input; null if no gradient of it is needed
  /// Slices sum the input's gradient together, even if only some need it.
  bool goes_to_input_;
  pass_means others_;
  std::optional<module_pass> pass_;
};

namespace {

/// Returns a module's ranges for a plan of buckets. Throws `error` unless they cover all of its parameters.
std::vector<nn::parameter_range> checked_ranges(const nn::module& of) {
  std::vector<nn::parameter_range> all = of.ranges();
  std::size_t count = 0;
  for (const nn::parameter_range& one : all)
    if (std::exchange(count, count + one.count) != one.first) count = SIZE_MAX;
  if (const std::size_t parameters = nn::count_of(of.parameters()); count != parameters)
    throw error(error_kind::input,
                fmt::format("{}: its ranges are not its {} parameters in order", of.type(), parameters));
  return all;
}

kernels::device& checked(kernels::device& where, const nn::module& what, const tensor_slice* slice) {
  check_runs_on(what, where, "--device");
  if (slice != nullptr && !where.is_host())
    throw error(error_kind::input,
                fmt::format("--device: {} in slices (tensor_parallel) computes on the processor; use "
                            "--device cpu",
                            what.type()));
  return where;
}

/// A plan of buckets has at least one.
std::vector<nn::parameter_range> or_empty(std::vector<nn::parameter_range> ranges) {
  if (ranges.empty()) ranges.emplace_back();
  return ranges;
}

actors::trained_parameters::options options_of(const nn::module& of, const data_parallel_options& chosen,
                                               const step_rules& rules, const tensor_slice* slice) {
  constexpr double bucket_mib_max = 65536;
  if (!(chosen.bucket_mib > 0 && chosen.bucket_mib <= bucket_mib_max))
    throw error(error_kind::input, fmt::format("data_parallel: bucket_mib {}: must be above 0 and at most {}",
                                               chosen.bucket_mib, bucket_mib_max));
  return {.bucket_bytes = std::max<std::size_t>(static_cast<std::size_t>(chosen.bucket_mib * (1U << 20)), 1),
          .watches = !rules.skips(),
          .applies_whole = rules.applies_whole(),
          .names = nn::placed(of.parameters()),
          .normed = slice == nullptr ? std::nullopt : std::optional(slice->counted_once())};
}

/// Returns the user's name for a replica. Throws `error` if it is invalid.
std::string checked(const std::string& name) {
  const bool fits =
      std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
  const bool is_taken = name.starts_with("replica") || name.starts_with("rank") || name == "table" || name == "kept";
  if (!fits || is_taken)
    throw error(
        error_kind::input,
        fmt::format("data_parallel: the name '{}' {}", printable(name),
                    is_taken
                        ? "is as the library's own names are: not 'table' or 'kept', nor begun with 'rank' or 'replica'"
                        : "has other characters than letters, digits, '_' and '-'"));
  return name;
}

}  // namespace

replica::replica(std::shared_ptr<const nn::module> module, std::shared_ptr<tensor_slice> slice,
                 const data_parallel_options& options, std::uint64_t seed, std::uint64_t number,
                 std::uint32_t first_bucket, const kept_state& from, std::uint32_t rank, const step_rules& rules,
                 kernels::device& where)
    : claim_(claim_numbers(*module, where)),
      module_(std::move(module)),
      tensors_(*module_),
      slice_(std::move(slice)),
      number_(number),
      ranges_(checked_ranges(*module_)),
      is_synchronized_(options.synchronized && !options.group),
      group_(options.group),
      name_(fmt::format("{}{}", is_synchronized_ ? "" : fmt::format("rank{}.", rank),
                        options.has_name() ? checked(options.name) : fmt::format("replica{}", number))),
      label_(options.has_name() ? options.name : module_->type()),
      from_(from),
      first_bucket_(first_bucket),
      numbers_(or_empty(ranges_), checked(where, *module_, slice_.get()),
               options_of(*module_, options, rules, slice_.get())) {
  if (slice_) name_ += fmt::format(".slice{}of{}", slice_->part().part(), slice_->part().parts());
  check_names(*module_, name_);
  if (options.group && !options.synchronized)
    throw error(error_kind::input,
                fmt::format("data_parallel: {} with a group, and not synchronized; leave out one or the other",
                            module_->type()));
  if (synchronizes() && !is_synchronized_)
    throw error(
        error_kind::input,
        fmt::format("data_parallel: a module in {} synchronizes over all trainers, and the replica does not; leave out "
                    "one or the other",
                    module_->type()));
  const std::uint64_t key = model::random_key(seed, model::random_stream::dense_weights, 0, number);
  const nn::module& whole = slice_ ? slice_->whole() : *module_;
  auto [parameters, buffers] = in_module(whole, "initialize", [&] { return nn::initial_numbers(whole, key); });
  if (slice_) parameters = slice_->cut(parameters);
  if (slice_ && from_.restores(name_.substr(0, name_.rfind('.') + 1)) && !from_.has_any(name_ + "."))
    throw error(error_kind::input,
                fmt::format("--resume: the checkpoint has no {}; resume with as many slices (tensor_parallel)", name_));
  is_restored_ = from_.restores(name_ + ".");
  is_made_late_ = !from_.does_again();
  if (is_restored_) {
    parameters = restored(module_->parameters(), "");
    buffers = restored(module_->buffers(), "");
  }
  numbers_.start(parameters, buffers);
  keep_gradient(claim_, *module_);
  constexpr std::size_t buckets_max = actors::bucket_window<int>::buckets_max;
  if (first_bucket + numbers_.buckets() > buckets_max)
    throw error(error_kind::input,
                fmt::format("{}: the trainer's modules have {} buckets or more, at most {} can be; use a larger "
                            "bucket_mib than {}",
                            module_->type(), first_bucket + numbers_.buckets(), buckets_max, options.bucket_mib));
}

/// Returns tensors of the checkpoint, flat.
std::vector<float> replica::restored(const std::vector<nn::parameter>& tensors, const std::string& suffix) const {
  std::vector<float> flat;
  for (const nn::parameter& one : tensors) {
    const auto part = from_.restored<float>(fmt::format("{}.{}{}", name_, one.name, suffix));
    if (part.size() != one.shape.count())
      throw error(error_kind::input, fmt::format("--resume: {} of {} has {} numbers, the checkpoint has {}", one.name,
                                                 module_->type(), one.shape.count(), part.size()));
    flat.insert(flat.end(), part.begin(), part.end());
  }
  return flat;
}

network_part* replica::part() const {
  if (stage_ != nullptr) return &stage_->part();
  return slice_ ? &slice_->part() : nullptr;
}

bool replica::shares_batch() const { return slice_ && slice_->part().part() > 0; }

const troupe::group* replica::group() const {
  if (const network_part* const mine = part()) return &mine->across();
  return group_ ? &*group_ : nullptr;
}

bool replica::is_saved_by(std::uint32_t rank) const {
  if (const network_part* const mine = part()) return mine->replica_number() == 0;
  return rank == 0 || !is_synchronized_;
}

void replica::put(msg::save_dense& into) {
  const std::vector<msg::tensor> state = numbers_.state();
  const bool has_buffers = !module_->buffers().empty();
  const std::size_t of_optimizer = state.size() - 1 - (has_buffers ? 1 : 0);
  put_flat(into, name_, module_->parameters(), "", state.front());
  for (std::size_t k = 0; k < of_optimizer; ++k)
    put_flat(into, name_, module_->parameters(), fmt::format(".state.{}", k), state[k + 1]);
  if (has_buffers) put_flat(into, name_, module_->buffers(), "", state.back());
}

void replica::check_settled(const char* what) const {
  for (std::uint32_t bucket = 0; bucket < numbers_.buckets(); ++bucket)
    if (numbers_.is_reducing(bucket))
      throw error(error_kind::run,
                  fmt::format("{}: {} while an optimizer step is under way; co_await it first", label_, what));
}

named_tensors replica::state_dict() const {
  check_settled("state_dict");
  return state_of(*module_, numbers_);
}

std::vector<float> replica::parameters() {
  check_settled("parameters");
  const msg::tensor now = numbers_.weights();
  const auto all = now.as<float>();
  return {all.begin(), all.end()};
}

void replica::load_state_dict(const named_tensors& given) {
  check_settled("load_state_dict");
  const bool is_whole = slice_ && slice_->is_of_whole(given);
  flat_state read = read_state(is_whole ? slice_->whole() : *module_, given);
  if (is_whole) {
    const std::vector<float> mine = slice_->cut(read.parameters.as<float>());
    read.parameters = tensor::of<float>(shape(mine.size()), std::span(mine));
  }
  if (is_restored_ && (is_made_late_ ? !from_.is_beyond() : from_.does_again())) return;
  numbers_.replace(read.parameters.as<float>(), read.buffers.as<float>());
}

sequence_part replica::apply(tape& on, const tensor& input, const pass_options& how) {
  if (on.owner().has_open_step()) on.owner().check_step_awaited(fmt::format("{}: a pass", label_));
  const tensor* const state = how.state;
  if (state != nullptr && on.maker_of(*state) != nullptr)
    throw error(
        error_kind::input,
        fmt::format("{}: a state {} that the context has computed, and no gradient goes back into a state; copy "
                    "its numbers into a tensor of their own",
                    module_->type(), to_string(state->shape())));
  on.finish_passed();
  actors::actor_trace& trace = on.owner().trace;
  const actors::actor_trace::range working(trace, trace.given_range(label_), on.owner().step, trace.latest());
  if (!on.is_training()) {
    on.maker_of(input);  // throws if it is of another context
    const module_pass pass = in_module(*module_, "forward", [&] {
      return module_pass(*module_, tensors_, numbers_, input, {.slices = slice_.get()}, state);
    });
    return {on.add(pass.output(), nullptr), pass.next_state()};
  }
  if (on.owner().rules().applies_whole()) numbers_.keep_buffers();
  // The slices of a replica use the same random numbers.
  const std::uint64_t next = slice_ ? on.next_key_of_slices(slice_->part().replica_number()) : on.next_key();
  auto pass = std::make_shared<application>(*this, on, input, how, how.key.value_or(next));
  auto [output, next_state] = pass->made();
  return {on.add(std::move(output), std::move(pass)), std::move(next_state)};
}

void replica::set_optimizer(const model::optimizer_spec& chosen) {
  if (has_optimizer_)
    throw error(
        error_kind::input,
        fmt::format("{}: has an optimizer already; what is trained belongs to one distributed_optimizer", label_));
  if (const auto fault = model::device_fault(chosen, numbers_.compute().device(), "--device"))
    throw error(error_kind::input, fmt::format("{}: {}", module_->type(), *fault));
  const model::memory_claim of_state = claim_state(*module_, chosen, numbers_.compute().device());
  claim_of_mean_ = claim_shared_mean(*module_, number_, numbers_.compute().device());
  numbers_.set_optimizer(chosen);
  has_optimizer_ = true;
  const int buffers = model::state_buffers(chosen);
  if (!is_restored_ || from_.is_beyond() || buffers == 0 || module_->parameters().empty()) return;
  if (!from_.restores(fmt::format("{}.{}.state.", name_, module_->parameters().front().name))) return;
  std::vector<msg::tensor> state;
  const auto add = [&](std::vector<float> flat) {
    const std::uint64_t count = flat.size();
    state.push_back(msg::tensor::own(count, 1, std::move(flat)));
  };
  add(restored(module_->parameters(), ""));
  for (int k = 0; k < buffers; ++k) add(restored(module_->parameters(), fmt::format(".state.{}", k)));
  if (!module_->buffers().empty()) add(restored(module_->buffers(), ""));
  TROUPE_ASSERT(numbers_.restore(state));
}

void replica::backward(tape& of, std::uint64_t step, bool is_last, function_ref<void(std::uint32_t)> full) {
  if (!of.has_gone_back()) return;
  actors::actor_trace& trace = of.owner().trace;
  const actors::actor_trace::range working(trace, trace::range_name::backward_parameters, step, trace.latest());
  // The last pass writes to the buckets, so that they are sent while it runs; earlier passes are summed before.
  application* last = nullptr;
  const float without_pass = of.is_spoilt() ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  for (node* one : of.passed())
    if (one->belongs_to() == this)
      if (auto* before = std::exchange(last, static_cast<application*>(one))) before->finish(of);
  kernels::stream& on = numbers_.compute();
  const float* const sum = of.finished_gradient_of(*this);
  numbers_.backward(
      step, is_last,
      [&](nn::gradient_places& places) {
        bucket_gradient buckets(on, places, sum);
        if (last && !of.is_spoilt()) return last->backward_parameters(buckets);
        for (std::size_t i = ranges_.size(); i-- > 0;) {
          on.fill(ranges_[i].count, without_pass, buckets.at(ranges_[i]));
          buckets.finished(ranges_[i]);
        }
      },
      full);
  if (!numbers_.is_on_host()) numbers_.synchronize();
  auto& passed = of.passed();
  const auto is_mine = [this](const node* one) { return one->belongs_to() == this; };
  passed.erase(std::remove_if(passed.begin(), passed.end(), is_mine), passed.end());
}

}  // namespace troupe::runtime
