// Each collective once, by three trainers. Trainer 0 prints its results: the same numbers in one process and, with
// --processes, in several.

#include <cstdio>
#include <troupe/troupe.hpp>
#include <vector>

using namespace troupe;

tensor row(const std::vector<double>& numbers) { return tensor::of<double>(shape(numbers.size()), numbers); }

void print(const char* what, const tensor& x) {
  std::printf("%-24s", what);
  for (const double number : x.as<double>()) std::printf(" %g", number);
  std::printf("\n");
}

task<> meet(trainer me) {
  const group all = me.group();
  const tensor mine = row({1.0 + me.rank(), 10.0 * me.rank()});

  const tensor sum = co_await all.all_reduce(mine);
  const tensor mean = co_await all.all_reduce(mine, reduce_op::mean);
  const tensor largest = co_await all.all_reduce(mine, reduce_op::max);
  const std::vector<tensor> everyones = co_await all.all_gather(mine);

  const tensor six = row({1, 2, 3, 4, 5, 6.0 + me.rank()});
  const tensor third = co_await all.reduce_scatter(six);  // trainer 0 gets the first third of the sum

  const tensor announced = co_await all.broadcast(mine, 2);
  const std::vector<tensor> gathered = co_await all.gather(mine, 0);  // empty for trainers 1 and 2
  const std::vector<tensor> parts = {row({7}), row({8}), row({9})};
  const tensor part = co_await all.scatter(parts, 1);  // from trainer 1's

  all.send(mine, (me.rank() + 1) % 3);
  const tensor before = co_await all.recv((me.rank() + 2) % 3);

  tensor ends;
  if (me.rank() != 1) {
    const group without_one = all.subgroup({0, 2});
    ends = co_await without_one.all_reduce(mine);
  }

  auto first = all.all_reduce(mine, reduce_op::min);  // two in progress at once
  auto second = all.all_reduce(six);
  const tensor sum_of_six = co_await std::move(second);
  const tensor smallest = co_await std::move(first);

  if (me.rank() == 0) {
    print("all_reduce sum", sum);
    print("all_reduce mean", mean);
    print("all_reduce min", smallest);
    print("all_reduce max", largest);
    print("all_reduce sum of six", sum_of_six);
    for (const tensor& one : everyones) print("all_gather", one);
    print("reduce_scatter", third);
    print("broadcast from 2", announced);
    for (const tensor& one : gathered) print("gather to 0", one);
    print("scatter from 1", part);
    print("recv from 2", before);
    print("all_reduce of 0 and 2", ends);
  }
  co_await all.barrier();
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  cluster.run(3, meet);
}
