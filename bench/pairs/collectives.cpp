// The float32 sum of two trainers, for a given number of bytes. Counterpart of bench/pytorch/collectives.py.

#include <algorithm>
#include <string>

#include "bench/pairs/timing.hpp"
#include "troupe/troupe.hpp"

namespace troupe::pairs {
namespace {

task<> reduce(trainer me, std::int64_t bytes) {
  const group all = me.group();
  const tensor x(shape(bytes / 4));
  std::ranges::fill(x.as<float>(), 1.0F);
  const int count = static_cast<int>(std::clamp<std::int64_t>((std::int64_t{1} << 28) / bytes / 4, 20, 2'000));
  stopwatch watch(count);
  for (int i = -count / 10 - 1; i < count; ++i) {
    watch.at(i);
    co_await all.all_reduce(x);
  }
  if (me.rank() == 0) report("all_reduce:" + std::to_string(bytes), watch.each());
}

void measure(int argc, char** argv) {
  std::int64_t bytes = 4096;
  cluster cluster(argc, argv, {option("bytes", bytes, "of the tensor that each has")});
  cluster.run(2, reduce, bytes);
}

}  // namespace
}  // namespace troupe::pairs

int main(int argc, char** argv) { troupe::pairs::measure(argc, argv); }
