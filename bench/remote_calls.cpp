// Calls of remote objects: one that does nothing, awaited one after another in a task, and waited for by a thread; and
// rows for a linear layer of 4096 x 4096, of 64 clients, joined and not. In one process, or with --processes.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>
#include <vector>

#include "kernels/device.hpp"
#include "troupe/troupe.hpp"

using namespace troupe;

namespace {

using bench_clock = std::chrono::steady_clock;

/// CPU time of this process, all threads: the cost of a call when other programs also need the cores.
double cpu_microseconds() { return static_cast<double>(std::clock()) * 1e6 / CLOCKS_PER_SEC; }

double microseconds_since(bench_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(bench_clock::now() - begin).count();
}

}  // namespace

class callee final : public remote_object {
 public:
  static constexpr std::size_t width = 4096;

  callee() : layer_(width, width), parameters_(width * width + width, 0.01F) {}

  void nothing() {}
  tensor apply(const tensor& x) {
    tensor y(layer_.output(x));
    layer_.forward(
        {.stream = kernels::host_stream()},
        {.parameters = {parameters_.data(), named_}, .input = x, .output = {y.as<float>().data(), y.shape()}});
    return y;
  }
  tensor apply_joined(const tensor& x) { return apply(x); }

  static void describe(methods<callee>& m) {
    m.add("nothing", &callee::nothing);
    m.add("apply", &callee::apply);
    m.add_batched("apply_joined", &callee::apply_joined, {.max_batch_size = 64, .wait = std::chrono::milliseconds(1)});
  }

 private:
  nn::linear layer_;
  std::vector<nn::parameter> named_ = nn::placed(layer_.parameters());
  std::vector<float> parameters_;
};
const registered<callee> callees("callee");

namespace {

/// Returns the microseconds of a round of 64 calls with one row each, the best of 10.
template <class Method>
task<double> round_of_64(remote_module<callee> receiver, Method method) {
  double best = 1e12;
  for (int round = 0; round < 10; ++round) {
    const auto begin = bench_clock::now();
    std::vector<future<tensor>> answers;
    for (int client = 0; client < 64; ++client) {
      const std::vector<float> row(callee::width, 1.0F);
      answers.push_back(receiver.call(method, tensor::of<float>({1, callee::width}, row)));
    }
    for (auto& one : answers) co_await std::move(one);
    best = std::min(best, microseconds_since(begin));
  }
  co_return best;
}

task<> measure(trainer, remote_module<callee> receiver) {
  constexpr int calls = 20'000;
  for (int round = 0; round < 3; ++round) {
    const auto begin = bench_clock::now();
    const double cpu = cpu_microseconds();
    for (int i = 0; i < calls; ++i) co_await receiver.call(&callee::nothing);
    std::printf("a call that does nothing, awaited: %.2f us, %.2f us of this process's cores\n",
                microseconds_since(begin) / calls, (cpu_microseconds() - cpu) / calls);
  }
  promise<> done;
  auto coming = done.get_future();
  std::thread other([&] {
    const auto begin = bench_clock::now();
    for (int i = 0; i < calls; ++i) receiver.call(&callee::nothing).get();
    std::printf("the same, got by a thread of one's own: %.2f us\n", microseconds_since(begin) / calls);
    done.set();
  });
  co_await std::move(coming);
  other.join();
  auto alone = round_of_64(receiver, &callee::apply);
  const double unjoined = co_await alone;
  auto together = round_of_64(receiver, &callee::apply_joined);
  const double joined = co_await together;
  std::printf("64 rows for a linear layer of 4096 x 4096: one by one %.0f us, joined %.0f us: %.1f times as fast\n",
              unjoined, joined, unjoined / joined);
}

}  // namespace

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  const auto receiver = cluster.server(0).make<callee>();
  cluster.run(1, measure, receiver);
}
