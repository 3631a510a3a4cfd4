// Work outside of steps. `sampler`: an epoch of rank 0's share (of two ranks) of a million rows, in batches of 1024;
// `state`: writes the state_dict of a linear layer of 5000 x 5000, 100 MB, to a safetensors file in the current folder,
// reads it, and loads it into the layer. Counterpart of bench/pytorch/data.py.

#include <cstdio>
#include <string>

#include "bench/pairs/timing.hpp"
#include "troupe/troupe.hpp"

namespace troupe::pairs {
namespace {

constexpr int repetitions = 3;

task<> read_epochs(trainer me) {
  const distributed_sampler sampler(me, 1'000'000, 1024);
  stopwatch watch(repetitions);
  for (int i = -1; i < repetitions; ++i) {
    watch.at(i);
    std::size_t rows = 0;
    for (const auto& batch : sampler.epoch(static_cast<std::uint64_t>(i + 1))) rows += batch.size();
    if (rows != 500'000) throw error(error_kind::run, "the sampler has lost rows");
  }
  if (me.rank() == 0) report("sampler", watch.each());
  co_await me.group().barrier();
}

task<> keep_state(trainer me) {
  const char* const file = "state.safetensors";
  const auto model = me.data_parallel(nn::linear(5000, 5000));
  stopwatch watch(repetitions);
  for (int i = -1; i < repetitions; ++i) {
    watch.at(i);
    save_safetensors(file, model.state_dict());
    model.load_state_dict(load_safetensors(file));
  }
  report("state", watch.each());
  std::remove(file);
  co_return;
}

void measure(int argc, char** argv) {
  std::string what = "sampler";
  cluster cluster(argc, argv, {option("what", what, "sampler or state")});
  if (what == "sampler")
    cluster.run(2, read_epochs);
  else
    cluster.run(1, keep_state);
}

}  // namespace
}  // namespace troupe::pairs

int main(int argc, char** argv) { troupe::pairs::measure(argc, argv); }
