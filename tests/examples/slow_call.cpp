// A server answers many calls at once, and then one that takes longer than the allowed silence: its process must not be
// declared dead.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "troupe/troupe.hpp"

namespace {

using namespace troupe;

class worker final : public remote_object {
 public:
  std::int64_t work(const tensor& milliseconds) {
    const std::int64_t time = milliseconds.as<std::int64_t>()[0];
    std::this_thread::sleep_for(std::chrono::milliseconds(time));
    return time;
  }
  named_tensors state_dict() const override { return {}; }
  void load_state_dict(const named_tensors&) override {}
  static void describe(methods<worker>& all) { all.add("work", &worker::work); }
};
const registered<worker> types("worker");

task<> train(trainer, remote_module<worker> server) {
  constexpr int quick_calls = 100;
  std::int64_t worked = 0;
  for (int i = 0; i <= quick_calls; ++i) {
    const std::vector<std::int64_t> time = {i < quick_calls ? 0 : 5000};
    const tensor milliseconds = tensor::of<std::int64_t>({1}, time);
    worked += co_await server.call(&worker::work, milliseconds);
  }
  std::printf("it worked for %lld ms\n", static_cast<long long>(worked));
}

}  // namespace

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  const auto server = cluster.server(0).make<worker>();
  cluster.run(1, train, server);
}
