// bench_allreduce: the all-reduce of two processes on this machine over data links, by the groups that reduce buckets
// of gradients, by the library's `all_reduce`, and by Gloo if it is found: all exchange slices, sum them in rank order
// and gather the sums, so that the bits are those of one process.
//
// Prints a line for each bucket size: medians in microseconds over many reductions, from the call to the result. The
// methods take turns, so that a busy moment of the machine affects all of them.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <caf/all.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <vector>

#include "actors/collective/allreduce_group.hpp"
#include "actors/common/actor_name.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/data_plane.hpp"
#include "kernels/device.hpp"
#include "protocol/messages.hpp"
#include "troupe/runtime/trainer_runtime.hpp"
#include "troupe/troupe.hpp"

#ifdef TROUPE_GLOO
#include <gloo/allgather.h>
#include <gloo/alltoall.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#endif

namespace troupe {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint64_t run_number = 1;
constexpr std::size_t repeats_before = 20;
constexpr int rounds = 5;

struct bucket_size {
  std::size_t count;
  std::size_t repeats;  ///< per round
};
constexpr std::array<bucket_size, 6> sizes = {
    {{136, 1000}, {4'096, 1000}, {16'384, 500}, {65'536, 300}, {262'144, 100}, {1'048'576, 40}}};

/// Microseconds of each reduction, by size.
using durations = std::array<std::vector<double>, sizes.size()>;

void add(std::vector<double>& to, const std::vector<double>& of_a_round) {
  to.insert(to.end(), of_a_round.begin() + repeats_before, of_a_round.end());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// -- data links --------------------------------------------------------------------

struct config : caf::actor_system_config {
  config() {
    config_file_path.clear();
    set("caf.scheduler.max-threads", 2);
    nodes::add_network(*this);
  }
};

void reduce_again(caf::event_based_actor* self, msg::allreduce_actor group, std::uint32_t rank, bucket_size size,
                  std::uint64_t first_step, std::shared_ptr<std::vector<double>> times,
                  std::shared_ptr<std::promise<void>> done) {
  msg::tensor_buffer grad(size.count, 1);
  std::fill_n(grad.data(), size.count, 0.5F);
  const auto begin = clock::now();
  self->request(group, caf::infinite,
                msg::reduce{{run_number, first_step + times->size()}, rank, 0, 1, false, std::move(grad).freeze()})
      .then([=](const msg::reduced&) {
        const std::chrono::duration<double, std::micro> took = clock::now() - begin;
        times->push_back(took.count());
        if (times->size() == size.repeats + repeats_before) return done->set_value();
        reduce_again(self, group, rank, size, first_step, times, done);
      });
}

/// This process and the other one, linked to each other.
class two_processes {
 public:
  two_processes(std::uint32_t my_rank, int to_other, int from_other)
      : rank(my_rank), to_other_(to_other), from_other_(from_other) {
    const auto where = data.listen({"127.0.0.1", 0});
    std::array<std::uint16_t, 2> ports{};
    ports[rank] = where->port;
    swap(ports[rank], ports[1 - rank]);
    std::vector<msg::peer_node> peers;
    for (std::uint32_t i = 0; i < 2; ++i)
      peers.push_back({i, 0, fmt::format("process {}", i), true, {i}, fmt::format("127.0.0.1:{}", ports[i])});
    data.expect({run_number, rank, 0}, peers, {});
    meet();  // both must expect the other before either connects
    std::promise<void> connected;
    data.connect([&connected](const std::string&) { connected.set_value(); });
    connected.get_future().get();
  }

  /// Waits for the other process.
  void meet() {
    const char mine = 1;
    char its = 0;
    swap(mine, its);
  }

  nodes::data_link_ptr link() const { return data.link_to(1 - rank); }

  const std::uint32_t rank;
  config settings;
  caf::actor_system system{settings};
  nodes::data_plane data{system, {.mine = {"a token for this measurement"}, .links = {}, .handshakes = {}}};

 private:
  template <class T>
  void swap(const T& mine, T& its) {
    if (::write(to_other_, &mine, sizeof mine) < 0 || ::read(from_other_, &its, sizeof its) <= 0) std::_Exit(1);
  }

  int to_other_;
  int from_other_;
};

void measure_groups(two_processes& both, std::uint64_t first_step, durations& all) {
  actors::group_layout layout;
  layout.process_of_rank = {0, 1};
  layout.me = both.rank;
  layout.groups.resize(2);
  layout.groups[1 - both.rank] = both.link()->proxy<msg::allreduce_actor>(actors::group_number);
  const auto group = both.system.spawn(actors::allreduce_group, run_number, layout);
  both.data.actors().add(actors::group_number, caf::actor_cast<caf::strong_actor_ptr>(group));
  both.meet();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bucket_size size = sizes[k];
    auto times = std::make_shared<std::vector<double>>();
    auto done = std::make_shared<std::promise<void>>();
    auto finished = done->get_future();
    both.system.spawn([=, rank = both.rank](caf::event_based_actor* self) {
      reduce_again(self, group, rank, size, first_step, times, done);
    });
    finished.get();
    first_step += times->size();
    add(all[k], *times);
  }
  both.meet();
  caf::anon_send_exit(group, caf::exit_reason::user_shutdown);
}

// -- the library -----------------------------------------------------------------------

task<> reduce_many(trainer me, durations* all_times) {
  const group all = me.group();
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bucket_size size = sizes[k];
    tensor grad(shape(size.count));
    std::ranges::fill(grad.as<float>(), 0.5F);
    std::vector<double> times;
    for (std::size_t i = 0; i < size.repeats + repeats_before; ++i) {
      const auto begin = clock::now();
      const tensor mean = co_await all.all_reduce(grad, reduce_op::mean);
      const std::chrono::duration<double, std::micro> took = clock::now() - begin;
      times.push_back(took.count());
    }
    add((*all_times)[k], times);
  }
}

void measure_library(two_processes& both, durations& all) {
  const std::uint32_t rank = both.rank;
  const auto made =
      runtime::make_trainer(both.system, run_number, rank, 0, [&all](trainer me) { return reduce_many(me, &all); });
  both.data.actors().add(actors::trainer_number(rank, 0), caf::actor_cast<caf::strong_actor_ptr>(made.actor));
  actors::trainer_peers peers{std::vector<msg::peer_actor>(2), std::vector<caf::actor_addr>(2)};
  peers.of_rank[1 - rank] = both.link()->proxy<msg::peer_actor>(actors::trainer_number(1 - rank, 0));
  peers.senders[1 - rank] = both.link()->sender();
  made.send_peers(peers);
  both.meet();
  std::promise<void> done;
  both.system.spawn([&](caf::event_based_actor* self) {
    msg::train order;
    order.trainers = 2;
    self->request(made.actor, caf::infinite, std::move(order)).then([&](const msg::trained&) { done.set_value(); });
  });
  done.get_future().get();
  both.meet();
  caf::anon_send_exit(made.actor, caf::exit_reason::user_shutdown);
}

// -- Gloo ----------------------------------------------------------------------------

#ifdef TROUPE_GLOO
void measure_gloo(std::uint32_t rank, const std::string& folder, durations& all) {
  std::filesystem::create_directories(folder);
  gloo::transport::tcp::attr address;
  address.iface = "lo";
  const auto device = gloo::transport::tcp::CreateDevice(address);
  gloo::rendezvous::FileStore store(folder);
  const auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), 2);
  context->connectFullMesh(store, const_cast<std::shared_ptr<gloo::transport::Device>&>(device));
  std::uint32_t tag = 0;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bucket_size size = sizes[k];
    std::vector<float> grad(size.count, 0.5F);
    std::vector<float> parts(size.count);
    std::vector<float> mean(size.count);
    const std::size_t slice = size.count / 2;
    std::vector<float> sum(slice);
    std::vector<double> times;
    for (std::size_t i = 0; i < size.repeats + repeats_before; ++i) {
      const auto begin = clock::now();
      gloo::AlltoallOptions exchange(context);
      exchange.setInput(grad.data(), grad.size());
      exchange.setOutput(parts.data(), parts.size());
      exchange.setTag(++tag);
      gloo::alltoall(exchange);
      const std::array<const float*, 2> inputs = {parts.data(), parts.data() + slice};
      kernels::host_stream().sum_in_rank_order(inputs, slice, 0.5F, sum.data());
      gloo::AllgatherOptions gather(context);
      gather.setInput(sum.data(), sum.size());
      gather.setOutput(mean.data(), mean.size());
      gather.setTag(++tag);
      gloo::allgather(gather);
      const std::chrono::duration<double, std::micro> took = clock::now() - begin;
      times.push_back(took.count());
    }
    add(all[k], times);
  }
}
#else
void measure_gloo(std::uint32_t, const std::string&, durations&) {}
#endif

int measure() {
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& one : pipes)
    if (::pipe(one.data()) != 0) return 1;
  std::string folder = std::filesystem::temp_directory_path() / "troupe-allreduce-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const pid_t child = ::fork();
  const std::uint32_t rank = child == 0 ? 1 : 0;
  nodes::initialize_network_types();
  durations groups;
  durations library;
  durations gloo;
  {
    two_processes both(rank, pipes[rank][1], pipes[1 - rank][0]);
    for (int round = 0; round < rounds; ++round) {
      measure_groups(both, 1, groups);
      measure_library(both, library);
      measure_gloo(rank, fmt::format("{}/{}", folder, round), gloo);
    }
  }
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  const bool has_gloo = !gloo[0].empty();
  fmt::print("   floats  groups us  library us{}\n", has_gloo ? "  Gloo us" : "");
  for (std::size_t k = 0; k < sizes.size(); ++k)
    fmt::print("{:>9} {:>10.1f} {:>11.1f}{}\n", sizes[k].count, median(groups[k]), median(library[k]),
               has_gloo ? fmt::format("{:>9.1f}", median(gloo[k])) : "");
  return 0;
}

}  // namespace
}  // namespace troupe

int main() { return troupe::measure(); }
