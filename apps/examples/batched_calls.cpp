// Joins the calls of many clients on the server: 64 clients with one row each for a layer of 512 x 512, whose matrix is
// then read once for all of them.

#include <cstdio>
#include <troupe/troupe.hpp>

using namespace troupe;

constexpr std::size_t width = 512;
constexpr int clients = 64;

class scorer final : public remote_object {
 public:
  scorer() : w_(width * width) {
    for (std::size_t i = 0; i < w_.size(); ++i) w_[i] = i % 7 - 3.0F;
  }

  /// Multiplies x [n, width] by the matrix; returns [n, width].
  tensor score(const tensor& x) {
    ++calls_;
    tensor y(x.shape());
    std::ranges::fill(y.as<float>(), 0.0F);
    const std::size_t rows = x.shape()[0];
    for (std::size_t k = 0; k < width; ++k)
      for (std::size_t n = 0; n < rows; ++n) {
        const float by = x.as<float>()[n * width + k];
        float* const to = y.as<float>().data() + n * width;
        for (std::size_t j = 0; j < width; ++j) to[j] += by * w_[k * width + j];
      }
    return y;
  }
  std::int64_t calls() const { return calls_; }

  static void describe(methods<scorer>& m) {
    m.add_batched("score", &scorer::score, {.max_batch_size = clients, .wait = std::chrono::seconds(60)});
    m.add("calls", &scorer::calls);
  }

 private:
  std::vector<float> w_;
  std::int64_t calls_ = 0;
};
const registered<scorer> scorers("scorer");

task<> ask(trainer me, remote_module<scorer> server) {
  const auto mine = clients / me.trainers();
  for (std::size_t round = 0; round < 10; ++round) {
    std::vector<future<tensor>> answers;
    for (std::uint32_t client = 0; client < mine; ++client) {
      std::vector<float> row(width);
      row[round * mine + client] = 1;  // so the answer is a row of the matrix
      answers.push_back(server.call(&scorer::score, tensor::of<float>({1, width}, row)));
    }
    for (std::uint32_t client = 0; client < mine; ++client) {
      const tensor y = co_await std::move(answers[client]);
      const std::size_t k = round * mine + client;
      for (std::size_t j = 0; j < width; ++j)
        if (y.as<float>()[j] != (k * width + j) % 7 - 3.0F) throw error(error_kind::run, "a wrong answer");
    }
  }
  if (me.rank() == 0)
    std::printf("%d clients' %d calls were %ld of the server's\n", clients, 10 * clients,
                co_await server.call(&scorer::calls));
}

int main(int argc, char** argv) {
  cluster cluster(argc, argv);
  auto server = cluster.server(0).make<scorer>();
  cluster.run(2, ask, server);
}
