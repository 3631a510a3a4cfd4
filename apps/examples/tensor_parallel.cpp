// Tensor parallelism, as in Megatron-LM (Shoeybi et al., 2019): every layer is split into slices, each on its own
// trainer. In a pair of layers, the first is split by its outputs and the second by its inputs, so that the trainers
// exchange one sum of outputs per pair forward, and one of gradients backward. The losses are those of the whole
// network. Each replica of all slices has its own batch; replicas apply the mean of their gradients.
//
//   tensor_parallel --slices 2 --replicas 2 --processes

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <troupe/troupe.hpp>
#include <utility>
#include <vector>

using namespace troupe;

struct settings {
  std::uint64_t slices = 2;
  std::uint64_t replicas = 1;
  std::uint64_t pairs = 2;
  std::uint64_t width = 16;    // of the network's inputs and outputs, and between the pairs
  std::uint64_t hidden = 64;   // between the layers of a pair
  std::uint64_t samples = 32;  // per replica's batch
  std::uint64_t steps = 60;
  std::uint64_t report = 20;
};

/// Columns of a matrix with rows of `width` numbers, as [rows, columns]; `first` points to the first number of the
/// first column.
tensor columns_of(const float* first, std::size_t rows, std::size_t columns, std::size_t width) {
  tensor made({rows, columns});
  for (std::size_t i = 0; i < rows; ++i) std::copy_n(first + i * width, columns, made.as<float>().data() + i * columns);
  return made;
}

/// Makes a slice of a pair of layers: some outputs of the first one, followed by a gelu, and those inputs of the second
/// one, whose bias is in slice 0. `replicas`: the trainers that have the same slice.
std::vector<data_parallel> make_slice(trainer me, const settings& chosen, const group& replicas, std::uint64_t pair) {
  const std::size_t width = chosen.width, hidden = chosen.hidden, mine = hidden / chosen.slices;
  const std::size_t slice = me.rank() % chosen.slices, from = slice * mine;
  const bool has_bias = slice == 0;
  const std::uint64_t key = (me.seed() << 32U) + 2 * pair;
  // The initial weights of the whole layers, the same on all trainers.
  const auto expand = nn::initial_numbers(nn::linear(width, hidden), key).parameters;
  const auto contract = nn::initial_numbers(nn::linear(hidden, width), key + 1).parameters;

  auto first = me.data_parallel(nn::sequential(nn::linear(width, mine), nn::gelu()), {.group = replicas});
  auto second = me.data_parallel(nn::linear(mine, width, has_bias), {.group = replicas});
  const std::span all(expand);
  first.load_state_dict({{"0.weight", tensor::of({mine, width}, all.subspan(from * width, mine * width))},
                         {"0.bias", tensor::of({mine}, all.subspan(hidden * width + from, mine))}});
  named_tensors of_second = {{"weight", columns_of(contract.data() + from, width, mine, hidden)}};
  if (has_bias) of_second.emplace_back("bias", tensor::of({width}, std::span(contract).subspan(width * hidden)));
  second.load_state_dict(of_second);
  return {first, second};
}

/// Inputs; the targets are the larger of each input and the next one. Depends on step and replica only, so that all
/// slices of a replica get the same batch.
std::pair<tensor, tensor> make_batch(const settings& chosen, std::uint64_t step, std::uint64_t replica) {
  const tensor inputs({chosen.samples, chosen.width});
  const tensor targets({chosen.samples, chosen.width});
  const auto x = inputs.as<float>();
  std::uint64_t noise = 1 + step * 1000 + replica;
  for (float& one : x) {
    noise = noise * 6364136223846793005U + 1442695040888963407U;
    one = (noise >> 40U) / 8388608.0 - 1;  // -1 to 1
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t next = (i + 1) % chosen.width == 0 ? i + 1 - chosen.width : i + 1;
    targets.as<float>()[i] = std::max(x[i], x[next]);
  }
  return {inputs, targets};
}

/// The ranks `first`, `first + stride`, ...
std::vector<std::uint32_t> ranks_from(std::uint64_t first, std::uint64_t stride, std::uint64_t count) {
  std::vector<std::uint32_t> ranks;
  for (std::uint64_t i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

/// Trainer r has slice r % T of replica r / T.
task<> train(trainer me, settings chosen) {
  const std::uint64_t slice = me.rank() % chosen.slices, replica = me.rank() / chosen.slices;
  const group slices = me.group().subgroup(ranks_from(me.rank() - slice, 1, chosen.slices));
  const group replicas = me.group().subgroup(ranks_from(slice, chosen.slices, chosen.replicas));
  std::vector<data_parallel> layers;
  for (std::uint64_t pair = 0; pair < chosen.pairs; ++pair)
    for (const data_parallel& one : make_slice(me, chosen, replicas, pair)) layers.push_back(one);
  distributed_optimizer optimizer(sgd{.lr = 0.5, .momentum = 0.9}, layers);
  for (const auto step : me.steps(chosen.steps)) {
    const auto [inputs, targets] = make_batch(chosen, step, replica);
    auto context = me.new_context();
    tensor x = inputs;
    for (std::size_t i = 0; i < layers.size(); i += 2) {
      const tensor hidden = layers[i](context, slices.all_reduce_gradient(context, x));
      x = co_await slices.all_reduce(context, layers[i + 1](context, hidden));
    }
    const tensor loss = nn::mse_loss(context, x, targets);
    co_await context.backward(loss);
    co_await optimizer.step(context);
    if ((step + 1) % chosen.report != 0) continue;
    const tensor mean = co_await replicas.all_reduce(loss, reduce_op::mean);
    if (me.rank() == 0) std::printf("step %lu: loss %.9f\n", step + 1, mean.item());
  }
}

int main(int argc, char** argv) {
  settings chosen;
  cluster cluster(
      argc, argv,
      {option("slices", chosen.slices, "into which each layer is cut").within(1, 64),
       option("replicas", chosen.replicas, "of all slices").within(1, 64),
       option("pairs", chosen.pairs, "of layers").within(1, 100),
       option("width", chosen.width, "of inputs and outputs").within(1, 100'000),
       option("hidden", chosen.hidden, "between the layers of a pair, a multiple of the slices").within(1, 100'000),
       option("samples", chosen.samples, "of a replica's batch").within(1, 100'000),
       option("steps", chosen.steps, "how many batches are learned"),
       option("report", chosen.report, "a loss after so many steps each").within(1, 1'000'000'000)});
  if (chosen.hidden % chosen.slices != 0)
    throw error(error_kind::input, "--hidden " + std::to_string(chosen.hidden) + ": must be a multiple of the " +
                                       std::to_string(chosen.slices) + " slices");
  const run_summary done = cluster.run(chosen.slices * chosen.replicas, train, chosen);
  std::fprintf(stderr, "%lu steps in %.3f s\n", done.steps, done.seconds);
}
