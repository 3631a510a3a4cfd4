// The network of apps/examples/mnist.toml in dlib, on random images: prints samples/s as a JSON line. bench/mnist.sh
// compiles and runs it. usage: dlib_mnist [STEPS [BATCH]]

#include <dlib/dnn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

using namespace dlib;

template <class Below>
using normalised = relu<bn_con<Below>>;
using images = input<matrix<unsigned char>>;
using first = normalised<add_layer<con_<12, 3, 3, 1, 1, 1, 1>, images>>;
using second = normalised<add_layer<con_<24, 6, 6, 2, 2, 0, 0>, first>>;
using third = normalised<add_layer<con_<32, 6, 6, 2, 2, 2, 2>, second>>;
using network = loss_multiclass_log<fc<10, dropout<relu<fc<256, avg_pool_everything<third>>>>>>;

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 100;
  const std::size_t batch = argc > 2 ? static_cast<std::size_t>(std::atoi(argv[2])) : 128;
  constexpr int warm_up = 10;
  std::mt19937 random(1);
  std::vector<matrix<unsigned char>> samples(batch, matrix<unsigned char>(28, 28));
  std::vector<unsigned long> labels(batch);
  for (std::size_t i = 0; i < batch; ++i) {
    for (auto& pixel : samples[i]) pixel = static_cast<unsigned char>(random() % 256);
    labels[i] = random() % 10;
  }
  network net;
  dnn_trainer<network, adam> trainer(net, adam(0, 0.9F, 0.999F));
  trainer.set_learning_rate(0.001);
  for (int i = 0; i < warm_up; ++i) trainer.train_one_step(samples, labels);
  trainer.get_net(force_flush_to_disk::no);  // waits
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < steps; ++i) trainer.train_one_step(samples, labels);
  trainer.get_net(force_flush_to_disk::no);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  std::printf("{\"samples_per_s\":%.0f}\n", static_cast<double>(batch) * steps / taken.count());
}
