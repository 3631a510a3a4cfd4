#include "troupe/runtime/tensor_slice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/tensor_parallel.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

/// Returns the network. Throws `error` unless it can be sliced over so many trainers.
const nn::sequential& sliceable(const nn::module& whole, const data_parallel_options& options, std::uint32_t trainers) {
  const std::uint32_t slices = options.tensor_parallel;
  const std::string option = fmt::format("data_parallel: tensor_parallel {}", slices);
  const auto refuse = [&](const std::string& why) {
    throw error(error_kind::input, fmt::format("{}: {}", option, why));
  };
  if (options.group || !options.synchronized)
    refuse("a replica with a group, or not synchronized, has no slices; leave out one or the other");
  if (slices == 0 || slices > trainers || trainers % slices != 0)
    refuse(
        fmt::format("the run has {} trainers; each slice has a trainer of its own in each replica, so there must be "
                    "{}, or a multiple of that",
                    trainers, slices == 0 ? "1 slice" : std::to_string(slices)));
  if (whole.synchronizes())
    refuse(
        "a module in the network synchronizes, and the slices have the same batch; use one that does not, as "
        "batch_norm without .synchronized");
  const auto* const layers = dynamic_cast<const nn::sequential*>(&whole);
  if (layers == nullptr)
    refuse(fmt::format("{} is not a list of layers to cut; give it as nn::sequential(...)", whole.type()));
  if (const auto wrong = model::check_slices(*layers, slices, option, "nn::sequential"))
    throw error(error_kind::input, *wrong);
  return *layers;
}

model::network_parts layout_of_slices(const nn::module& whole, const nn::module& slice, std::uint32_t slices) {
  const auto tensors = nn::placed(whole.parameters());
  model::network_parts all{nn::count_of(tensors), nn::count_of(whole.buffers()), {}};
  for (std::uint32_t i = 0; i < slices; ++i)
    all.parts.push_back(
        {model::places_of_slice(tensors, slice.parameters(), i), {0, i == 0 ? all.buffers : 0}});  // each has them all
  return all;
}

}  // namespace

tensor_slice::tensor_slice(trainer_runtime& of, const nn::module& whole, const data_parallel_options& options)
    : trainer_(of),
      whole_(sliceable(whole, options, of.trainers())),
      mine_(std::make_shared<const nn::sequential>(model::slice_of(whole_, options.tensor_parallel))),
      part_(of, layout_of_slices(whole_, *mine_, options.tensor_parallel)) {}

bool tensor_slice::is_of_whole(const named_tensors& state) const {
  const auto tensors = whole_.parameters();
  return std::ranges::all_of(state, [&](const auto& given) {
    const auto found = std::ranges::find(tensors, given.first, &nn::parameter::name);
    return found == tensors.end() || found->shape == given.second.shape();
  });
}

float* tensor_slice::share(std::size_t rows, std::size_t cols) {
  share_ = tensor({rows, cols});
  return share_.as<float>().data();
}

void tensor_slice::sum(float* to) {
  const auto& tasks = trainer_.calls().executor();
  if (!tasks->can_wait())
    throw error(
        error_kind::input,
        "a pass of a network in slices (tensor_parallel) waits for the other slices; call it in a task of the "
        "trainer, not in a callback, and not between the making of a replica after the first optimizer step and "
        "the next co_await");
  group_calls& in = part_.along().calls();
  const tensor all = tasks->wait(
      in.owner.call<tensor>(in, {.kind = collective_kind::all_reduce, .input = std::exchange(share_, {})},
                            {.deadline = part_.along().deadline(), .at = in.owner.place(), .is_of_pass = true}));
  std::ranges::copy(all.as<float>(), to);
}

}  // namespace troupe::runtime
