// Requests to a server, one call after the other: `call`, a method that does nothing; `forward`, 256 bags of 8 rows of
// a table of 100,000 x 64, without gradients. Counterpart of bench/pytorch/remote.py.

#include <string>
#include <vector>

#include "bench/pairs/timing.hpp"
#include "troupe/troupe.hpp"

namespace troupe::pairs {
namespace {

constexpr int rows = 100'000;
constexpr int bags = 256;
constexpr int bag = 8;

class callee final : public remote_object {
 public:
  void nothing() {}
  static void describe(methods<callee>& m) { m.add("nothing", &callee::nothing); }
};
const registered<callee> callees("callee");

task<> call(trainer, remote_module<callee> server) {
  stopwatch watch(20'000);
  for (int i = -1'000; i < 20'000; ++i) {
    watch.at(i);
    co_await server.call(&callee::nothing);
  }
  report("call", watch.each());
}

task<> forward(trainer, remote_module<nn::embedding_bag> table) {
  std::vector<std::int64_t> indices;
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < bags * bag; ++i) indices.push_back(i * 7919 % rows);
  for (std::int64_t i = 0; i < bags; ++i) offsets.push_back(i * bag);
  stopwatch watch(5'000);
  for (int i = -200; i < 5'000; ++i) {
    watch.at(i);
    co_await table.rows(indices, offsets);
  }
  report("forward", watch.each());
}

void measure(int argc, char** argv) {
  std::string what = "call";
  cluster cluster(argc, argv, {option("what", what, "call or forward")});
  if (what == "call")
    cluster.run(1, call, cluster.server(0).make<callee>());
  else
    cluster.run(1, forward,
                cluster.server(0).make<nn::embedding_bag>(
                    {.num_embeddings = rows, .embedding_dim = 64, .mode = nn::pooling::sum}));
}

}  // namespace
}  // namespace troupe::pairs

int main(int argc, char** argv) { troupe::pairs::measure(argc, argv); }
