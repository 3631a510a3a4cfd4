#include "troupe/runtime/pipeline_stage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string>

#include "base/assert.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/received_input.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

enum pipeline_tag : std::uint32_t { tag_samples, tag_activations, tag_gradients, tag_loss, tag_inference };

/// A tensor with a shape and type but without numbers.
tensor without_numbers(const shape& lengths, dtype type) {
  static std::byte nothing{};
  return {lengths, type, {std::shared_ptr<std::byte>(), &nothing}};
}

template <class T>
tensor one_number(T x) {
  return tensor::of<T>(shape(1), std::span<const T>(&x, 1));
}

nn::sequential joined(const std::vector<nn::sequential>& stages) {
  nn::sequential all;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].size() == 0)
      throw error(error_kind::input, fmt::format("pipeline: stage {} has no modules; each has at least 1", s));
    all.extend(stages[s]);
  }
  return all;
}

/// Returns the stages, numbered as in the whole network.
std::vector<nn::sequential> numbered(const std::vector<nn::sequential>& stages) {
  const nn::sequential all = joined(stages);
  std::vector<nn::sequential> parts;
  std::size_t first = 0;
  for (const nn::sequential& one : stages) {
    parts.push_back(all.part(first, one.size()));
    first += one.size();
    if (one.synchronizes())
      throw error(
          error_kind::input,
          fmt::format("pipeline: a module in stage {} synchronizes, and the stages are in no pass together; use "
                      "one that does not, as batch_norm without .synchronized",
                      parts.size() - 1));
  }
  return parts;
}

pipeline_schedule checked(pipeline_schedule chosen) {
  if (chosen > pipeline_schedule::pipedream) throw error(error_kind::input, "pipeline: no such schedule");
  return chosen;
}

model::stage_place place_of(std::uint32_t rank, std::uint32_t trainers, std::size_t stages,
                            const pipeline_options& options) {
  if (stages == 0) throw error(error_kind::input, "pipeline: no stages; give it at least 1");
  if (stages > trainers || trainers % stages != 0)
    throw error(error_kind::input,
                fmt::format("pipeline: {} stages for {} trainers; each stage has a trainer of its own in each replica, "
                            "so there must be {}, or a multiple of that",
                            stages, trainers, stages));
  if (options.schedule == pipeline_schedule::pipedream && options.micro_batches > 1)
    throw error(error_kind::input, fmt::format("pipeline: {} micro_batches with pipedream, which passes whole batches; "
                                               "leave it out",
                                               options.micro_batches));
  const auto count = static_cast<std::uint32_t>(stages);
  return {rank % count, count, checked(options.schedule)};
}

/// Returns the number of elements; 0 if no memory can hold so many: the trainer of that stage refuses it.
std::size_t possible_count(std::span<const nn::parameter> tensors) {
  try {
    return nn::count_of(tensors);
  } catch (const error&) {
    return 0;
  }
}

/// Returns the layout of the stages' numbers in the whole network: one after the other.
model::network_parts layout_of(const std::vector<nn::sequential>& stages) {
  model::network_parts all;
  for (const nn::sequential& one : stages) {
    const std::size_t parameters = possible_count(one.parameters());
    const std::size_t buffers = possible_count(one.buffers());
    all.parts.push_back({{{.first = all.parameters, .cols = parameters}}, {all.buffers, buffers}});
    all.parameters += parameters;
    all.buffers += buffers;
  }
  return all;
}

}  // namespace

tensor samples_of(const tensor& batch, const model::micro_batch& samples) {
  const std::size_t bytes = batch.count() / batch.shape()[0] * size_of(batch.type());
  return {batch.shape().with_first(samples.size),
          batch.type(),
          {batch.owner(), batch.owner().get() + samples.first * bytes}};
}

pipeline_stage::pipeline_stage(trainer_runtime& of, const std::vector<nn::sequential>& stages,
                               const pipeline_options& options)
    : trainer_(of),
      parts_(numbered(stages)),
      place_(place_of(of.rank(), of.trainers(), stages.size(), options)),
      micro_batches_(options.micro_batches == 0 ? stages.size() : options.micro_batches),
      replica_(of.make_replica(std::make_shared<const nn::sequential>(parts_[place_.stage]),
                               {.bucket_mib = options.bucket_mib, .name = options.name})),
      part_(of, layout_of(parts_)) {
  replica_->join(*this);
}

// -- a batch ----------------------------------------------------------------------------

void pipeline_stage::check_steps_awaited(const char* what) const {
  if (asked_ != begun_)
    throw error(error_kind::run,
                fmt::format("{} after a pipeline's step that was not awaited; co_await pipeline.step(...)", what));
}

void pipeline_stage::check_idle(const char* what) const {
  const std::string text = fmt::format("pipeline: {}", what);
  check_steps_awaited(text.c_str());
  trainer_.check_step_awaited(text);
}

task<double> pipeline_stage::take_step(context& in, tensor input, batch_loss loss, source_location at) {
  ++begun_;
  trainer_.communicator().set_place(at_ = at);
  tape& on = in.tape();
  on.check_training("a pipeline's step");
  if (on.maker_of(input) != nullptr)
    throw error(error_kind::input,
                fmt::format("pipeline: an input {} that the context has computed; gradients go back as far as the "
                            "first stage, so make what computes it a module of that stage",
                            to_string(input.shape())));
  begin_step(on);
  const std::size_t count = overlaps() ? 1 : model::micro_batches_with_samples(input.shape()[0], micro_batches_);
  auto own = overlaps() ? std::make_unique<context>(std::make_unique<tape>(trainer_, true)) : nullptr;
  context& where = own ? *own : in;
  const auto newest = std::make_shared<passing>(passing{trainer_.step, where, std::move(input), std::move(loss),
                                                        static_cast<std::uint32_t>(count), std::move(own)});
  if (overlaps())
    TROUPE_ASSERT(order_.add(newest->step, true, {.batch = newest}));
  else
    (order_ = executor(place_)).begin(newest->step, newest->count, {.batch = newest});
  co_await agree_on_samples(newest->samples());
  std::shared_ptr<passing> oldest;
  for (executor::entry* one = order_.next(); one != nullptr; one = order_.next()) {
    if (order_.is_forward_next()) {
      co_await pass_forward(*one);
    } else {
      oldest = one->kept.batch;
      co_await pass_back(*one);
    }
  }
  if (!oldest) co_return std::numeric_limits<double>::quiet_NaN();
  if (overlaps()) {
    on.take_passed(oldest->own->tape(), oldest);
    gradient_ = oldest->step;
  } else {
    passes_ += oldest->count;
  }
  co_return oldest->loss_sum;
}

/// Throws `error` if steps overlap, and the batch before had no optimizer step. If it had one, that has been awaited.
void pipeline_stage::begin_step(const tape& on) {
  if (!overlaps()) {
    if (std::exchange(context_, on.number()) != on.number()) passes_ = 0;
    return;
  }
  if (stepped_in_ != 0)
    throw error(error_kind::input,
                "pipeline: a second batch before the optimizer's step; with pipedream each batch is a step");
  stepped_in_ = on.number();
  if (order_.is_updating()) order_.update();
  if (order_.is_resting()) order_.begin_stream();
}

/// Passes the loss of a batch that has come back from the last stage to the others.
task<> pipeline_stage::exchange_loss(passing& batch) {
  if (!place_.is_last()) {
    const tensor loss = co_await received(place_.stage + 1, tag_loss, shape(1), dtype::f64);
    batch.loss_sum = loss.item();
    trainer_.note_loss(batch.loss_sum);
  }
  if (!place_.is_first()) along().send(one_number(batch.loss_sum), place_.stage - 1, tag_loss, at_);
}

/// Throws unless all stages of a replica have as many samples.
task<> pipeline_stage::agree_on_samples(std::size_t samples) {
  const auto mine = static_cast<std::int64_t>(samples);
  if (!place_.is_last()) along().send(one_number(mine), place_.stage + 1, tag_samples, at_);
  if (place_.is_first()) co_return;
  const tensor sent = co_await received(place_.stage - 1, tag_samples, shape(1), dtype::i64);
  if (const std::int64_t theirs = sent.as<std::int64_t>()[0]; theirs != mine)
    throw error(
        error_kind::input,
        fmt::format("pipeline: stage {} of replica {} has a batch of {} samples, stage {} one of {}; the stages "
                    "of a replica take the same batch",
                    place_.stage, part_.replica_number(), samples, place_.stage - 1, theirs));
}

/// Computes the shapes of the stages' activations. Throws `error` unless they fit together.
void pipeline_stage::check_shapes(const tensor& input, std::size_t samples) {
  const shape first = input.shape().with_first(samples);
  if (!checked_.empty() && checked_.front() == first) return;
  std::vector<shape> all = {first};
  tensor next = without_numbers(first, input.type());
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    try {
      all.push_back(parts_[s].output(next));
    } catch (const error& e) {
      if (s == 0) throw;
      throw error(error_kind::input,
                  fmt::format("pipeline: stage {} makes {} of float32, which stage {} cannot take: {}", s - 1,
                              to_string(all.back()), s, e.what()));
    }
    next = without_numbers(all.back(), dtype::f32);
  }
  checked_ = std::move(all);
}

/// Receives a tensor of another stage. Throws `error` if its shape or type is unexpected.
task<tensor> pipeline_stage::received(std::uint32_t from, std::uint32_t tag, shape wanted, dtype type) const {
  tensor sent = co_await along().recv(from, tag, at_);
  if (sent.type() != type || !(sent.shape() == wanted))
    throw error(error_kind::input,
                fmt::format("pipeline: stage {} has sent {} of {} to stage {}, which takes {} of {}; all trainers make "
                            "the same pipelines, and give the stages of a replica the same batches",
                            from, to_string(sent.shape()), name_of(sent.type()), place_.stage, to_string(wanted),
                            name_of(type)));
  co_return sent;
}

task<> pipeline_stage::pass_forward(executor::entry& one) {
  kept& its = one.kept;
  passing& batch = *its.batch;
  tape& on = batch.in.tape();
  const model::micro_batch part = batch.part(one.number);
  check_shapes(batch.input, part.size);
  if (place_.is_first()) {
    its.input = samples_of(batch.input, part);
  } else {
    tensor sent = co_await received(place_.stage - 1, tag_activations, checked_[place_.stage]);
    its.input = on.add(std::move(sent), std::make_shared<received_input>(place_.stage - 1));
  }
  order_.take_input(one);
  order_.begin_pass();
  max_in_flight_ = std::max(max_in_flight_, order_.max_in_flight());
  order_.keep_weights(one, [this] { return replica_->numbers().copy_of_weights(); });
  // Each micro-batch has its own pass and loss, as in the context of a whole network.
  const std::uint64_t key = on.key_of(part_.replica_number(), 2 * (passes_ + one.number));
  const replica::pass_options how{.key = key, .weights = one.weights};
  its.output = replica_->apply(on, its.input, how).output;
  if (place_.is_last()) {
    its.output = batch.loss(batch.in, its.output, part);
    one.loss = its.output.item() * batch.share(one.number);
  } else {
    along().send(its.output, place_.stage + 1, tag_activations, at_);
  }
  order_.end_pass(one);
}

/// Passes a micro-batch back; the last one of a batch also exchanges its loss.
task<> pipeline_stage::pass_back(executor::entry& one) {
  const kept& its = one.kept;
  const std::shared_ptr<passing> batch = its.batch;
  tape& on = batch->in.tape();
  if (place_.is_last()) {
    order_.begin_pass();
    co_await on.backward(its.output, batch->share(one.number));
  } else {
    tensor grad = co_await received(place_.stage + 1, tag_gradients, its.output.shape());
    order_.take_gradient(one);
    order_.begin_pass();
    co_await on.backward(its.output, std::move(grad));
  }
  if (!place_.is_first()) {
    node& input = *on.maker_of(its.input);
    if (input.grad.count() == 0)
      throw error(error_kind::input,
                  fmt::format("pipeline: the loss of micro-batch {} does not depend on the outputs that it was given",
                              one.number));
    along().send(std::exchange(input.grad, {}), place_.stage - 1, tag_gradients, at_);
  }
  const bool ends_batch = overlaps() || order_.is_last_back();
  order_.end_pass(one);
  batch->loss_sum = order_.loss();
  if (ends_batch) co_await exchange_loss(*batch);
}

// -- where steps overlap ------------------------------------------------------------------

std::optional<std::uint64_t> pipeline_stage::take_gradient(const tape& with) {
  if (std::exchange(stepped_in_, 0) != with.number())
    throw error(error_kind::input,
                "pipeline: an optimizer step with a context in which no batch was passed; with pipedream every replica "
                "has one in each step");
  return std::exchange(gradient_, std::nullopt);
}

task<> pipeline_stage::drain() {
  if (stepped_in_ != 0)
    throw error(error_kind::input,
                "pipeline: a batch without its optimizer step; with pipedream take it before the pipeline is drained, "
                "and before the trainer function returns");
  if (!overlaps() || order_.is_resting()) co_return;
  if (order_.is_updating()) order_.update();
  order_.end_stream();
  while (!order_.is_resting()) {
    executor::entry& one = *order_.next();
    const std::shared_ptr<passing> oldest = one.kept.batch;
    co_await pass_back(one);
    co_await trainer_.reductions().apply_gradient(oldest->own->tape(), *replica_, oldest->step);
    order_.update();
  }
}

void pipeline_stage::check_drained(const char* what) const {
  if ((!overlaps() || order_.in_flight() == 0) && stepped_in_ == 0) return;
  throw error(error_kind::input, fmt::format("pipeline: {} while batches are under way; co_await drain() first", what));
}

// -- inference ----------------------------------------------------------------------------

task<tensor> pipeline_stage::infer(context& in, tensor input) {
  if (overlaps()) co_await drain();
  tape& on = in.tape();
  if (on.is_training()) throw error(error_kind::input, "pipeline: infer in a training context; use one of no_grad()");
  check_shapes(input, input.shape().dimensions() == 0 ? 0 : input.shape()[0]);
  if (!place_.is_first()) input = co_await received(place_.stage - 1, tag_inference, checked_[place_.stage]);
  tensor output = replica_->apply(on, input).output;
  if (place_.is_last()) co_return output;
  along().send(output, place_.stage + 1, tag_inference, at_);
  co_return tensor();
}

// -- state --------------------------------------------------------------------------------

named_tensors pipeline_stage::state_dict() const {
  check_drained("state_dict");
  return replica_->state_dict();
}

void pipeline_stage::load(const named_tensors& state) {
  check_drained("load_state_dict");
  std::set<std::string> of_others;
  for (std::size_t s = 0; s < parts_.size(); ++s) {
    if (s == place_.stage) continue;
    for (const auto& tensors : {parts_[s].parameters(), parts_[s].buffers()})
      for (const nn::parameter& one : tensors) of_others.insert(one.name);
  }
  named_tensors mine;
  std::ranges::copy_if(state, std::back_inserter(mine),
                       [&](const auto& one) { return !of_others.contains(one.first); });
  replica_->load_state_dict(mine);
}

}  // namespace troupe::runtime
