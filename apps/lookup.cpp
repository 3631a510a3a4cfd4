#include "apps/lookup.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <caf/all.hpp>
#include <chrono>
#include <future>
#include <limits>
#include <thread>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/server/parameter_server.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/data_plane.hpp"
#include "model/random.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::bench {

namespace {

using clock = std::chrono::steady_clock;
using boost::asio::ip::tcp;

/// Both processes run on this machine: silence only means that others use the core.
constexpr std::chrono::seconds silence_max{60};
constexpr std::uint64_t table_rows = 100'000;
constexpr std::uint64_t bench_run = 1;
constexpr std::uint32_t server_node = 0;
constexpr std::uint32_t client_node = 1;
constexpr std::uint64_t repeats_before = 20;

/// Both processes, as the other one expects them.
std::vector<msg::peer_node> both(const std::string& server_address) {
  return {{server_node, 0, "the serving process", false, {0}, server_address},
          {client_node, 0, "the measuring process", true, {0}, ""}};
}

struct quiet_config : caf::actor_system_config {
  quiet_config() {
    config_file_path.clear();
    set("caf.scheduler.max-threads", 2);
    nodes::add_network(*this);
  }
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<std::int64_t> random_rows(const lookup_size& size) {
  model::random_sequence random(size.rows);
  std::vector<std::int64_t> rows(size.rows);
  for (std::int64_t& row : rows) row = static_cast<std::int64_t>(random.below(table_rows));
  return rows;
}

/// Keeps this process on one core, so that both kinds of requests are measured with the processes on different cores:
/// otherwise the result depends on whether the system gives them one core or two.
void stay_on_core(unsigned core) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores[core % cores.size()], &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

// -- the serving process ---------------------------------------------------------

/// Makes the tables; the first width is module 1.
caf::error make_tables(caf::actor_system& system, const msg::parameter_server_actor& server,
                       const std::vector<std::uint64_t>& dims) {
  caf::scoped_actor self(system);
  caf::error problem;
  for (const std::uint64_t dim : dims) {
    const msg::module_spec spec{"EmbeddingBag",
                                {{"num_embeddings", std::to_string(table_rows)},
                                 {"embedding_dim", std::to_string(dim)},
                                 {"mode", "sum"},
                                 {"table", "0"},
                                 {"seed", "1"},
                                 {"optimizer", "sgd"},
                                 {"lr", "0.05"},
                                 {"reduce", "sum"}}};
    self->request(server, std::chrono::seconds(60), msg::instantiate{{bench_run}, spec, 0, 1, 1, 1, 0, 0})
        .receive([](const msg::module_ref&) {}, [&problem](caf::error& error) { problem = std::move(error); });
  }
  return problem;
}

/// Reads all `size` bytes, in pieces as large as the system allows; false if the other side is gone. (Asio reads and
/// writes 64 KiB at a time.)
bool read_all(int socket, char* to, std::size_t size) {
  return size == 0 || ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

bool write_all(int socket, const char* from, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = ::send(socket, from, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    from += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

/// Answers requests of 16 bytes (bytes that follow, bytes wanted) and the announced bytes.
void serve_bytes(tcp::socket socket) {
  socket.set_option(tcp::no_delay(true));
  const int wire = socket.native_handle();
  std::vector<char> bytes;
  std::array<std::uint64_t, 2> sizes{};
  while (read_all(wire, reinterpret_cast<char*>(sizes.data()), sizeof sizes)) {
    bytes.resize(std::max({bytes.size(), sizes[0], sizes[1]}));
    if (!read_all(wire, bytes.data(), sizes[0]) || !write_all(wire, bytes.data(), sizes[1])) return;
  }
}

// -- the measuring process -------------------------------------------------------

/// Repeats a request; `times` gets each round trip in microseconds, `done` the end or an error.
void ask(caf::event_based_actor* self, const msg::parameter_server_actor& server, const msg::lookup& question,
         std::uint64_t repeats, const std::shared_ptr<std::vector<double>>& times,
         const std::shared_ptr<std::promise<caf::error>>& done) {
  const auto begin = clock::now();
  // The link has a deadline; one of CAF's would wake its clock's thread each time.
  self->request(server, caf::infinite, question)
      .then(
          [=](const msg::rows&) {
            const std::chrono::duration<double, std::micro> took = clock::now() - begin;
            times->push_back(took.count());
            if (times->size() == repeats) return done->set_value({});
            ask(self, server, question, repeats, times, done);
          },
          [=](const caf::error& error) { done->set_value(error); });
}

result<double> measure_lookup(caf::actor_system& system, const msg::parameter_server_actor& server,
                              std::uint64_t module, const lookup_size& size) {
  auto times = std::make_shared<std::vector<double>>();
  auto done = std::make_shared<std::promise<caf::error>>();
  auto outcome = done->get_future();
  msg::lookup question;
  question.head = {bench_run, 1, actors::trainer_number(0, 1)};
  question.tables.push_back({module, msg::blob::own(random_rows(size)), {}, {}});
  system.spawn([=, repeats = size.repeats + repeats_before](caf::event_based_actor* self) {
    ask(self, server, question, repeats, times, done);
  });
  if (const caf::error error = outcome.get()) return run_fault(protocol::describe(error));
  times->erase(times->begin(), times->begin() + repeats_before);
  return median(*times);
}

double measure_tcp(int wire, const lookup_size& size) {
  const std::array<std::uint64_t, 2> sizes = {size.rows * sizeof(std::int64_t), size.rows * size.dim * sizeof(float)};
  std::vector<char> request(sizeof sizes + sizes[0]);
  std::copy_n(reinterpret_cast<const char*>(sizes.data()), sizeof sizes, request.data());
  std::vector<char> answer(sizes[1]);
  std::vector<double> times;
  for (std::uint64_t i = 0; i < size.repeats + repeats_before; ++i) {
    const auto begin = clock::now();
    if (!write_all(wire, request.data(), request.size()) || !read_all(wire, answer.data(), answer.size()))
      return std::numeric_limits<double>::quiet_NaN();
    const std::chrono::duration<double, std::micro> took = clock::now() - begin;
    if (i >= repeats_before) times.push_back(took.count());
  }
  return median(std::move(times));
}

/// A link to the serving process.
result<nodes::data_link_ptr> link_to_service(nodes::data_plane& data, const lookup_service& service) {
  data.expect({bench_run, client_node, 0}, both(links::to_string(service.data)), {});
  std::promise<std::string> settled;
  data.connect([&settled](const std::string& problem) { settled.set_value(problem); });
  const std::string problem = settled.get_future().get();
  if (!problem.empty()) return run_fault(problem);
  return data.link_to(server_node);
}

}  // namespace

result<void> serve_lookups(const links::credentials& mine, const std::vector<std::uint64_t>& dims,
                           const std::function<void(const lookup_service&)>& on_ready,
                           const std::function<void()>& wait) {
  stay_on_core(1);
  nodes::initialize_network_types();
  quiet_config config;
  caf::actor_system system(config);
  nodes::data_plane data(system, {.mine = mine, .links = {.dead_after = silence_max}, .handshakes = {}});
  const auto where = data.listen({"127.0.0.1", 0});
  if (!where) return run_fault(where.error().message);
  const auto server = system.spawn(actors::parameter_server, bench_run, 0U);
  data.actors().add(actors::server_number(0), caf::actor_cast<caf::strong_actor_ptr>(server));
  data.expect({bench_run, server_node, 0}, both(links::to_string(*where)), {});
  const caf::error problem = make_tables(system, server, dims);

  boost::asio::io_context io;
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  std::thread bytes([&acceptor] {
    boost::system::error_code ended;
    for (;;) {
      tcp::socket socket = acceptor.accept(ended);
      if (ended) return;
      serve_bytes(std::move(socket));
    }
  });
  if (!problem) {
    on_ready({*where, {"127.0.0.1", acceptor.local_endpoint().port()}});
    wait();
  }
  ::shutdown(acceptor.native_handle(), SHUT_RDWR);
  bytes.join();
  caf::anon_send_exit(server, caf::exit_reason::user_shutdown);
  if (problem) return run_fault(protocol::describe(problem));
  return {};
}

result<std::vector<lookup_figures>> measure_lookups(const links::credentials& mine, const lookup_service& service,
                                                    const std::vector<lookup_size>& sizes) {
  stay_on_core(0);
  nodes::initialize_network_types();
  quiet_config config;
  caf::actor_system system(config);
  nodes::data_plane data(system, {.mine = mine, .links = {.dead_after = silence_max}, .handshakes = {}});
  auto link = link_to_service(data, service);
  if (!link) return tl::unexpected(link.error());
  const auto server = (*link)->proxy<msg::parameter_server_actor>(actors::server_number(0));

  boost::asio::io_context io;
  tcp::socket socket(io);
  boost::system::error_code refused;
  socket.connect({boost::asio::ip::make_address(service.tcp.host), service.tcp.port}, refused);
  if (refused) return run_fault(fmt::format("{}: {}", links::to_string(service.tcp), refused.message()));
  socket.set_option(tcp::no_delay(true));

  std::vector<lookup_figures> all;
  std::vector<std::uint64_t> dims;
  for (const lookup_size& size : sizes) {
    if (std::ranges::find(dims, size.dim) == dims.end()) dims.push_back(size.dim);
    const auto module = static_cast<std::uint64_t>(std::ranges::find(dims, size.dim) - dims.begin()) + 1;
    const auto us = measure_lookup(system, server, module, size);
    if (!us) return tl::unexpected(us.error());
    const double tcp_us = measure_tcp(socket.native_handle(), size);
    const double kilobytes = static_cast<double>(size.rows * size.dim * sizeof(float)) / 1000;
    all.push_back({size, *us, kilobytes / *us, tcp_us, kilobytes / tcp_us});
  }
  return all;
}

}  // namespace troupe::bench
