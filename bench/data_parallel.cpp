// The cost of data parallelism, by the way in which trainers exchange their gradients or weights;
// bench/data_parallel.sh runs it. The network of apps/examples/mnist.toml without dropout learns generated images by
// SGD, 64 per trainer and step. --way:
//
//   gather     all through rank 0, like PyTorch's DataParallel: it scatters samples and broadcasts weights, each
//              rank computes, and rank 0 gathers and averages
//   allreduce  like DistributedDataParallel: each rank has its own samples and a synchronized replica
//   server     weights on a server; each rank pulls and pushes them, and the server averages once all have pushed
//
// `gather` and `server` exchange each rank's weights after a step by its own gradient g: the mean of w - lr g is the
// step by the mean gradient, and weights are as large as gradients. So all ways end with the same weights up to
// rounding.
//
// Prints a line of JSON: samples/s, the bytes of tensors that each rank sends and receives per step (null: the library
// exchanges them), and the mean loss of one batch per rank after the last step.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "troupe/troupe.hpp"

namespace troupe::exchanges {

/// Sums one tensor per rank, then returns their mean.
class averaging {
 public:
  explicit averaging(std::size_t ranks) : ranks_(ranks) {}

  /// Returns whether it was the last one.
  bool add(const tensor& one) {
    if (added_ == 0) {
      sum_ = tensor(one.shape());
      std::ranges::copy(one.as<float>(), sum_.as<float>().begin());
    } else {
      for (std::size_t i = 0; i < one.count(); ++i) sum_.as<float>()[i] += one.as<float>()[i];
    }
    return ++added_ == ranks_;
  }
  /// Returns the mean and starts over.
  tensor mean() {
    for (float& number : sum_.as<float>()) number /= static_cast<float>(ranks_);
    added_ = 0;
    return sum_;
  }

 private:
  std::size_t ranks_;
  std::size_t added_ = 0;
  tensor sum_;
};

/// The weights for `server`.
class shared_weights final : public remote_object {
 public:
  struct options {
    std::size_t trainers = 0;

    static nn::option_fields<options> fields() {
      return nn::option_fields<options>().whole("trainers", &options::trainers, 1);
    }
  };
  explicit shared_weights(const options& chosen) : mean_(chosen.trainers) {}

  void begin(const tensor& with) { weights_ = with; }
  tensor pull() const { return weights_; }
  /// Returns when all trainers have pushed and `pull` gives the mean.
  task<> push(tensor own) {
    if (!mean_.add(own)) {
      auto averaged = waiting_.emplace_back().get_future();
      co_await std::move(averaged);
      co_return;
    }
    weights_ = mean_.mean();
    for (const auto& one : std::exchange(waiting_, {})) one.set();
  }

  static void describe(methods<shared_weights>& m) {
    m.add("begin", &shared_weights::begin);
    m.add("pull", &shared_weights::pull);
    m.add("push", &shared_weights::push);
  }

 private:
  averaging mean_;
  tensor weights_;
  std::vector<promise<>> waiting_;
};

namespace {

constexpr std::size_t batch = 64;
constexpr std::size_t side = 28;
constexpr std::size_t classes = 10;
constexpr std::size_t batches = 4;  // per rank, reused
constexpr double lr = 0.05;
constexpr std::uint64_t warm_up = 4;

nn::sequential make_network() {
  nn::sequential made;
  made.add(nn::conv2d({.in_channels = 1, .out_channels = 12, .kernel = 3, .padding = 1, .bias = false}));
  made.add(nn::batch_norm({.channels = 12, .eps = 1e-3, .scale = false})).add(nn::relu());
  made.add(nn::conv2d({.in_channels = 12, .out_channels = 24, .kernel = 6, .stride = 2, .bias = false}));
  made.add(nn::batch_norm({.channels = 24, .eps = 1e-3, .scale = false})).add(nn::relu());
  made.add(nn::conv2d({.in_channels = 24, .out_channels = 32, .kernel = 6, .stride = 2, .padding = 2}));
  made.add(nn::batch_norm({.channels = 32, .eps = 1e-3, .scale = false})).add(nn::relu());
  made.add(nn::global_avg_pool2d()).add(nn::linear(32, 256)).add(nn::relu()).add(nn::linear(256, classes));
  return made;
}

struct samples {
  tensor images;  ///< [batch, 1, side, side]
  tensor labels;  ///< [batch], int64
};

/// Noise, with two brighter rows that depend on the label.
samples make_samples(std::uint64_t seed, std::uint32_t rank, std::size_t number) {
  samples made = {.images = tensor(shape(batch, 1, side, side)), .labels = tensor(shape(batch), dtype::i64)};
  std::seed_seq seeds{seed, std::uint64_t{rank}, std::uint64_t{number}};
  std::mt19937 random(seeds);
  std::uniform_real_distribution<float> noise(-1, 1);
  for (std::size_t i = 0; i < batch; ++i) {
    const std::size_t label = random() % classes;
    made.labels.as<std::int64_t>()[i] = static_cast<std::int64_t>(label);
    const auto image = made.images.as<float>().subspan(i * side * side, side * side);
    for (std::size_t pixel = 0; pixel < image.size(); ++pixel)
      image[pixel] = noise(random) + (pixel / (2 * side) == label ? 1.0F : 0.0F);
  }
  return made;
}

/// All numbers of a replica's state, concatenated.
tensor flat(const named_tensors& state) {
  std::size_t count = 0;
  for (const auto& [name, one] : state) count += one.count();
  tensor all{shape(count)};
  auto to = all.as<float>().begin();
  for (const auto& [name, one] : state) to = std::ranges::copy(one.as<float>(), to).out;
  return all;
}

const registered<shared_weights> weights_on_servers("shared_weights");

enum class exchange { gather, allreduce, server };

struct job {
  std::string way = "allreduce";
  std::uint64_t trainers = 2;
  std::uint64_t steps = 20;
  std::string weights;

  /// Throws `error` for an unknown way.
  exchange by() const {
    if (way == "gather") return exchange::gather;
    if (way == "allreduce") return exchange::allreduce;
    if (way == "server") return exchange::server;
    throw error(error_kind::input, "--way " + way + ": must be gather, allreduce or server");
  }
};

/// A rank of the job.
class worker {
 public:
  worker(trainer me, exchange by, const remote_module<shared_weights>& server)
      : me_(me),
        by_(by),
        server_(server),
        model_(me.data_parallel(make_network(), {.synchronized = by == exchange::allreduce})),
        optimizer_(sgd{.lr = lr}, model_),
        state_(model_.state_dict()),
        weights_(flat(state_)),
        mean_(me.trainers()) {
    for (std::uint32_t rank = 0; rank < me.trainers(); ++rank) {
      const bool has = rank == me.rank() || (by == exchange::gather && me.rank() == 0);
      for (std::size_t i = 0; i < batches; ++i) samples_.push_back(has ? make_samples(me.seed(), rank, i) : samples{});
    }
  }

  task<> begin() {
    if (by_ == exchange::server && me_.rank() == 0) co_await server_.call(&shared_weights::begin, weights_);
    co_await me_.group().barrier();
  }

  /// Runs a step in the chosen way.
  task<> step(std::uint64_t number) {
    if (by_ == exchange::gather) return step_by_rank_0(number);
    if (by_ == exchange::server) return step_by_server(number);
    return compute(at(me_.rank(), number));
  }

  /// The mean over the ranks of one batch's loss, with the weights after the last step.
  task<double> loss() {
    if (by_ == exchange::gather) load(co_await me_.group().broadcast(weights_, 0));
    if (by_ == exchange::server) load(co_await server_.call(&shared_weights::pull));
    const samples& one = at(me_.rank(), 0);
    auto context = me_.new_context();
    const tensor mine = nn::cross_entropy(context, model_(context, one.images), one.labels.as<std::int64_t>());
    const tensor mean = co_await me_.group().all_reduce(mine, reduce_op::mean);
    co_return mean.item();
  }

  /// This rank's weights; call after `loss`.
  std::vector<float> weights() const { return model_.parameters(); }

  /// Bytes sent and received since the beginning.
  tensor moved() const { return tensor::of<std::int64_t>(shape(2), std::vector{sent_, received_}); }

 private:
  const samples& at(std::uint32_t rank, std::uint64_t number) const {
    return samples_[rank * batches + number % batches];
  }

  task<> step_by_rank_0(std::uint64_t number) {
    const group all = me_.group();
    std::vector<tensor> images, labels;
    if (me_.rank() == 0)
      for (std::uint32_t rank = 0; rank < me_.trainers(); ++rank) {
        images.push_back(at(rank, number).images);
        labels.push_back(at(rank, number).labels);
      }
    auto images_come = all.scatter(images, 0);
    auto labels_come = all.scatter(labels, 0);
    auto weights_come = all.broadcast(weights_, 0);
    samples mine;
    mine.images = co_await std::move(images_come);
    mine.labels = co_await std::move(labels_come);
    const tensor now = co_await std::move(weights_come);
    count(bytes_of(mine.images) + bytes_of(mine.labels) + bytes_of(now), me_.rank() == 0 ? sent_ : received_);
    load(now);
    co_await compute(mine);
    const tensor own = flat(model_.state_dict());
    const std::vector<tensor> everyones = co_await all.gather(own, 0);
    count(bytes_of(own), me_.rank() == 0 ? received_ : sent_);
    for (const tensor& one : everyones)
      if (mean_.add(one)) weights_ = mean_.mean();
  }

  task<> step_by_server(std::uint64_t number) {
    const tensor now = co_await server_.call(&shared_weights::pull);
    load(now);
    co_await compute(at(me_.rank(), number));
    const tensor own = flat(model_.state_dict());
    co_await server_.call(&shared_weights::push, own);
    received_ += bytes_of(now);
    sent_ += bytes_of(own);
  }

  /// Steps this replica: by its own gradient, or by the mean if it is synchronized.
  task<> compute(const samples& of) {
    auto context = me_.new_context();
    const auto loss = nn::cross_entropy(context, model_(context, of.images), of.labels.as<std::int64_t>());
    co_await context.backward(loss);
    co_await optimizer_.step(context);
  }

  void load(const tensor& all) {
    auto from = all.as<float>();
    for (auto& [name, one] : state_) {
      std::ranges::copy(from.first(one.count()), one.as<float>().begin());
      from = from.subspan(one.count());
    }
    model_.load_state_dict(state_);
  }

  static std::int64_t bytes_of(const tensor& x) { return static_cast<std::int64_t>(x.count() * size_of(x.type())); }
  /// Counts a transfer between rank 0 and each other rank.
  void count(std::int64_t bytes, std::int64_t& to) const {
    to += me_.rank() == 0 ? bytes * (me_.trainers() - 1) : bytes;
  }

  trainer me_;
  exchange by_;
  remote_module<shared_weights> server_;
  data_parallel model_;
  distributed_optimizer optimizer_;
  named_tensors state_;
  tensor weights_;  ///< for `gather`, at rank 0: those of the next step
  averaging mean_;
  std::vector<samples> samples_;  ///< by rank and number; for `gather` all at rank 0, else each rank's own
  std::int64_t sent_ = 0;
  std::int64_t received_ = 0;
};

void print(const job& of, double seconds, const std::vector<tensor>& moved, double loss) {
  const auto handled = static_cast<double>(batch * of.trainers * of.steps);
  std::printf(R"({"way":"%s","trainers":%llu,"steps":%llu,"samples_per_s":%.1f)", of.way.c_str(),
              static_cast<unsigned long long>(of.trainers), static_cast<unsigned long long>(of.steps),
              handled / seconds);
  for (const std::size_t direction : {0U, 1U}) {
    std::printf(R"(,"%s":)", direction == 0 ? "sent" : "received");
    if (of.by() == exchange::allreduce) {
      std::printf("null");
      continue;
    }
    for (std::size_t rank = 0; rank < moved.size(); ++rank)
      std::printf("%s%lld", rank == 0 ? "[" : ",",
                  static_cast<long long>(moved[rank].as<std::int64_t>()[direction]) /
                      static_cast<long long>(of.steps + warm_up));
    std::printf("]");
  }
  std::printf(",\"loss\":%.6f}\n", loss);
}

task<> train(trainer me, job of, remote_module<shared_weights> server) {
  using clock = std::chrono::steady_clock;
  worker mine(me, of.by(), server);
  co_await mine.begin();
  clock::time_point begin;
  for (std::uint64_t step = 0; step < warm_up + of.steps; ++step) {
    if (step == warm_up) {
      co_await me.group().barrier();
      begin = clock::now();
    }
    co_await mine.step(step);
  }
  co_await me.group().barrier();
  const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
  const double loss = co_await mine.loss();
  const std::vector<tensor> moved = co_await me.group().all_gather(mine.moved());
  if (me.rank() != 0) co_return;
  print(of, seconds, moved, loss);
  if (of.weights.empty()) co_return;
  const std::vector<float> weights = mine.weights();
  std::ofstream file(of.weights, std::ios::binary);
  file.write(reinterpret_cast<const char*>(weights.data()),
             static_cast<std::streamsize>(weights.size() * sizeof(float)));
  if (!file.flush()) throw error(error_kind::run, of.weights + ": cannot be written; name another file by --weights");
}

void measure(int argc, char** argv) {
  job of;
  cluster cluster(argc, argv,
                  {option("way", of.way, "gather, allreduce or server"), option("trainers", of.trainers, "how many"),
                   option("steps", of.steps, "of which samples/s are taken, behind the first four"),
                   option("weights", of.weights, "a file for the last weights of rank 0, as float32")});
  of.by();
  if (of.steps == 0) throw error(error_kind::input, "--steps 0: must be 1 or more");
  if (of.trainers == 0 || of.trainers > 1024)
    throw error(error_kind::input, "--trainers " + std::to_string(of.trainers) + ": must be between 1 and 1024");
  auto server = cluster.server(0).make<shared_weights>({.trainers = of.trainers});
  cluster.run(static_cast<std::uint32_t>(of.trainers), train, of, server);
}

}  // namespace
}  // namespace troupe::exchanges

int main(int argc, char** argv) { troupe::exchanges::measure(argc, argv); }
