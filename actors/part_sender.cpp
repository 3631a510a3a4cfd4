#include "actors/part_sender.hpp"

#include <algorithm>

#include "actors/actor_name.hpp"

namespace troupe::actors {

namespace {

/// Returns some of a batch's targets without a copy: of each sample `width` numbers.
template <class Number>
msg::tensor targets_of(const std::shared_ptr<const model::batch>& whole, const std::vector<Number>& all,
                       model::micro_batch samples, std::size_t width) {
  if (all.empty()) return {};
  return {msg::dtype_of<Number>(), samples.size, width,
          msg::blob(whole, all.data() + samples.first * width, samples.size * width * sizeof(Number))};
}

}  // namespace

std::uint32_t part_sender::number_of(std::uint32_t part) const {
  return trainer_number(assigned_.rank + part, assigned_.servers);
}

void part_sender::send_share(std::uint64_t step, std::uint64_t number, const msg::tensor& share) {
  for (std::uint32_t slice = 1; slice < assigned_.job->tensor_parallel; ++slice)
    self_->send(part(slice), msg::partial_sum{trace_.next(step), assigned_.rank, number, share});
}

void part_sender::send_input(std::uint64_t step, const network_input& input, std::size_t width,
                             const std::shared_ptr<const model::batch>& of, model::micro_batch samples,
                             std::uint32_t number, bool trains) {
  if (assigned_.job->tensor_parallel == 1) return;
  msg::tensor_buffer copy(samples.size, width);
  std::copy_n(input.data() + samples.first * width, copy.size(), copy.data());
  const msg::tensor numbers = std::move(copy).freeze();
  for (std::uint32_t slice = 1; slice < assigned_.job->tensor_parallel; ++slice)
    self_->send(part(slice), activation_of(step, of, samples, number, numbers, trains));
}

void part_sender::send_forward(std::uint64_t step, const std::shared_ptr<const model::batch>& of,
                               model::micro_batch samples, std::uint32_t number, msg::tensor outputs, bool trains) {
  self_->send(next_stage(), activation_of(step, of, samples, number, std::move(outputs), trains));
}

void part_sender::send_none(std::uint64_t step) { self_->send(next_stage(), activation_of(step)); }

void part_sender::send_end_of_stream(std::uint64_t step) {
  msg::activation none = activation_of(step);
  none.update = 0;
  self_->send(next_stage(), std::move(none));
}

void part_sender::send_none_to_all(std::uint64_t step) {
  for (std::uint32_t to = 1; to <= std::min(assigned_.job->tensor_parallel, count()); ++to)
    self_->send(part(to), activation_of(step));
}

/// What a step's activations have in common; of a batch of no samples it is all.
msg::activation part_sender::activation_of(std::uint64_t step) {
  return {.head = trace_.next(step),
          .rank = assigned_.rank,
          .update = schedule_.update(step),
          .ends_update = schedule_.ends_update(step)};
}

/// Of samples of a batch; those of an evaluation have no targets.
msg::activation part_sender::activation_of(std::uint64_t step, const std::shared_ptr<const model::batch>& of,
                                           model::micro_batch samples, std::uint32_t number, msg::tensor numbers,
                                           bool trains) {
  msg::activation made = activation_of(step);
  made.micro_batch = number;
  made.trains = trains;
  made.batch_size = of->size;
  made.numbers = std::move(numbers);
  if (!trains) {
    made.update = 0;
    made.ends_update = false;
    return made;
  }
  made.classes = targets_of(of, of->classes, samples, 1);
  made.values = targets_of(of, of->values, samples, assigned_.data->spec().outputs);
  return made;
}

}  // namespace troupe::actors
