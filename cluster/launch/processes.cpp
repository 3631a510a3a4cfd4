#include "cluster/launch/processes.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string_view>
#include <thread>

#include "base/number.hpp"
#include "base/result.hpp"
#include "cluster/launch/rejoin.hpp"
#include "cluster/launch/restarts.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/launch/trace_options.hpp"
#include "cluster/links/tls_context.hpp"
#include "cluster/nodes/node.hpp"

namespace troupe::launch {

namespace {

constexpr const char* master_variable = "TROUPE_MASTER";
constexpr const char* token_variable = "TROUPE_TOKEN";
constexpr const char* tls_key_variable = "TROUPE_TLS_KEY";  ///< in hexadecimal; empty: no TLS
constexpr const char* dead_after_variable = "TROUPE_DEAD_AFTER_MS";
constexpr const char* request_timeout_variable = "TROUPE_REQUEST_TIMEOUT_MS";
constexpr const char* threads_variable = "TROUPE_THREADS";
constexpr const char* prepare_variable = "TROUPE_PREPARE";
constexpr const char* trainers_variable = "TROUPE_TRAINERS";
constexpr const char* device_variable = "TROUPE_DEVICE";
constexpr const char* server_device_variable = "TROUPE_SERVER_DEVICE";
constexpr const char* devices_variable = "TROUPE_DEVICES";
constexpr const char* parent_variable = "TROUPE_PARENT";

/// Returns this program's path, which is the children's name in system tools. Without /proc: the path by which it was
/// started.
std::string own_path() {
  std::error_code unknown;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", unknown);
  if (unknown) return std::bit_cast<const char*>(::getauxval(AT_EXECFN));
  return std::filesystem::exists(path, unknown) ? path.string() : "/proc/self/exe";
}

std::string ended_by_signal(const std::string& name, const child_process& child) {
  return fmt::format("{} (pid {}) was ended by signal {}", name, child.pid(), *child.signal());
}

std::string ended_by_itself(const std::string& name, const child_process& child) {
  return fmt::format("{} (pid {}) ended with exit code {}", name, child.pid(), *child.exit_code());
}

template <class Number>
std::optional<Number> number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::nullopt : parse_number<Number>(text);
}

}  // namespace

role_processes::~role_processes() { finish(std::chrono::milliseconds(0)); }

role_orders orders_of(const children_options& chosen, const links::endpoint& where) {
  const nodes::network_options& network = chosen.network;
  const machine_options& machine = chosen.machine;
  role_orders orders{chosen.command, {}, chosen.servers, chosen.trainers};
  orders.variables = {
      fmt::format("{}={}", master_variable, links::to_string(where)),
      fmt::format("{}={}", token_variable, network.mine.token),
      fmt::format("{}={}", tls_key_variable, network.mine.tls ? links::to_text(network.mine.tls->key) : ""),
      fmt::format("{}={}", dead_after_variable, network.dead_after.count()),
      fmt::format("{}={}", request_timeout_variable, network.request_timeout.count()),
      fmt::format("{}={}", threads_variable, machine.threads),
      fmt::format("{}={}", prepare_variable,
                  machine.batch_threads.count ? std::to_string(*machine.batch_threads.count) : ""),
      fmt::format("{}={}", trainers_variable, chosen.trainers),
      fmt::format("{}={}", device_variable, machine.devices.trainers ? "cuda" : "cpu"),
      fmt::format("{}={}", server_device_variable, machine.devices.servers ? "cuda" : "cpu"),
      fmt::format("{}={}", devices_variable, fmt::join(machine.devices.numbers, ",")),
  };
  orders.variables.insert(orders.variables.end(), chosen.variables.begin(), chosen.variables.end());
  return orders;
}

void role_processes::start(const role_orders& orders) {
  not_started_.reset();
  std::erase_if(all_, [&](process& one) {
    if (one.rank < (one.trains ? orders.trainers : orders.servers)) return false;
    end_surplus(one.child);
    return true;
  });
  const auto runs = [this](const std::string& name) {
    return std::ranges::find(all_, name, &process::name) != all_.end();
  };
  bool all = true;
  for (std::uint32_t rank = 0; rank < orders.servers && all; ++rank)
    all = runs(fmt::format("server {}", rank)) || start_one(orders, "server", rank);
  for (std::uint32_t rank = 0; rank < orders.trainers && all; ++rank)
    all = runs(fmt::format("trainer {}", rank)) || start_one(orders, "trainer", rank);
}

/// Waits for a surplus process, which knows that it is one and removes its recording before it ends; then kills it.
void role_processes::end_surplus(child_process& child) {
  constexpr std::chrono::milliseconds interval{2};
  const auto give_up = std::chrono::steady_clock::now() + exit_timeout;
  for (poll(child); !child.has_ended() && std::chrono::steady_clock::now() < give_up; poll(child))
    std::this_thread::sleep_for(interval);
  if (child.has_ended()) return;
  child.kill();
  note_end(child);
}

void role_processes::start_missing(const role_orders& orders) {
  for (process& one : all_) {
    poll(one.child);
    if (one.child.has_ended() || !one.child.is_stopped()) continue;
    one.child.kill();
    note_end(one.child);
  }
  std::erase_if(all_, [](const process& one) { return one.child.has_ended(); });
  start(orders);
}

bool role_processes::start_one(const role_orders& orders, const char* role, std::uint32_t rank) {
  child_options options;
  options.variables = orders.variables;
  options.out = STDOUT_FILENO;  // what a user's trainer functions print
  // All are in one process group, so that a terminal stops and continues them together (Ctrl-Z, fg). Ctrl-C also
  // reaches all; it is blocked until a role can handle it as a stop request.
  options.held_signals = {SIGINT, SIGTERM};
  std::vector<std::string> command = orders.command;
  for (const std::string& word :
       {std::string("--role"), std::string(role), std::string("--rank"), std::to_string(rank)})
    command.push_back(word);
  auto child = child_process::start(own_path(), command, options);
  if (!child) {
    not_started_ = fmt::format("--processes: {} {} could not be started: {}", role, rank, child.error().message);
    return false;
  }
  kill_when_interrupted(child->pid());
  all_.push_back(
      {fmt::format("{} {}", role, rank), std::move(*child), false, role == std::string_view("trainer"), rank});
  return true;
}

void role_processes::note_end(const child_process& child) {
  peak_rss_kib_ = std::max(peak_rss_kib_, child.used().ru_maxrss);
  forget_child(child.pid());
}

void role_processes::poll(child_process& child) {
  if (child.has_ended()) return;
  child.poll();
  if (child.has_ended()) note_end(child);
}

std::optional<std::string> role_processes::missing() {
  if (not_started_) return not_started_;
  for (process& one : all_) {
    const auto& [name, child, is_reported, trains, rank, stopped_since] = one;
    poll(one.child);
    if (is_stopped(one))
      return fmt::format("{} (pid {}) was stopped by a signal before it had joined", name, child.pid());
    if (child.exit_code()) return ended_by_itself(name, child);
    if (child.signal()) return ended_by_signal(name, child);
  }
  return std::nullopt;
}

/// Returns whether a process stays stopped: one that a terminal has stopped together with this process may wake a
/// little later.
bool role_processes::is_stopped(process& one) {
  constexpr std::chrono::seconds longest{2};
  const auto now = std::chrono::steady_clock::now();
  if (!one.child.is_stopped())
    one.stopped_since.reset();
  else if (!one.stopped_since)
    one.stopped_since = now;
  return one.stopped_since && now - *one.stopped_since >= longest;
}

std::vector<std::string> role_processes::take_lost() {
  std::vector<std::string> lost;
  if (const auto why = std::exchange(not_started_, std::nullopt)) lost.push_back(*why);
  for (process& one : all_) {
    poll(one.child);
    if (!one.child.has_ended() || std::exchange(one.is_reported, true) || one.child.exit_code() == exit_done) continue;
    lost.push_back(one.child.signal() ? ended_by_signal(one.name, one.child) : ended_by_itself(one.name, one.child));
  }
  return lost;
}

bool role_processes::some_ended() const {
  return std::ranges::any_of(all_, [](const process& one) { return one.child.has_ended(); });
}

std::vector<std::string> role_processes::finish(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds interval{2};
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  const auto all_ended = [this] {
    for (process& one : all_) poll(one.child);
    return std::ranges::all_of(all_, [](const process& one) { return one.child.has_ended(); });
  };
  while (!all_ended() && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(interval);
  std::vector<std::string> killed;
  for (auto& [name, child, is_reported, trains, rank, stopped_since] : all_) {
    if (child.signal()) killed.push_back(ended_by_signal(name, child));
    if (child.has_ended()) continue;
    child.kill();
    note_end(child);
  }
  all_.clear();
  return killed;
}

double role_processes::peak_rss_mib() const {
  constexpr double kib_per_mib = 1024;
  return static_cast<double>(peak_rss_kib_) / kib_per_mib;
}

result<void> give_to_processes(machine_options& machine, std::uint32_t trainers, console& out) {
  actors::compute_devices& devices = machine.devices;
  devices.elsewhere = true;
  if (!devices.trainers || trainers <= devices.numbers.size()) return {};
  const std::string why = fmt::format("{} trainers on {} CUDA device{}: two processes cannot add up on one device",
                                      trainers, devices.numbers.size(), devices.numbers.size() == 1 ? "" : "s");
  if (!devices.trainers_by_default)
    return bad_input("--processes: {}; use --trainers {}, --device cpu, or leave out --processes", why,
                     devices.numbers.size());
  devices.stay_on_processor();
  devices.reason.clear();
  out.note(fmt::format("{}, so {} compute on the processor", why, devices.servers ? "trainers" : "all"));
  return {};
}

result<nodes::gather_options> gather_children(role_processes& children, children_options options) {
  nodes::gather_options gather;
  gather.listen = {"127.0.0.1", 0};
  gather.own_members = true;
  gather.network = options.network;
  gather.resume = options.resume;
  links::credentials& mine = gather.network.mine;
  const bool is_random = mine.token.empty();
  attempt* supervised = attempt::mine();
  if (is_random) mine.token = supervised ? supervised->before().token : links::random_token();
  // With the user's token other processes may also join, by TLS; the children use TLS only if the user asks for it.
  if (options.tls || !is_random) {
    auto made = links::make_tls(is_random ? links::expanded_key(mine.token) : links::stretched_key(mine.token));
    if (!made) return run_fault(std::move(made.error().message));
    mine.tls = std::move(*made);
    mine.plain_too = !options.tls;
  }
  options.network = gather.network;
  if (!options.tls) options.network.mine.tls = nullptr;
  if (supervised) {
    TROUPE_DO(fit_to_attempt(gather));
    gather.on_listening = [supervised, options = std::move(options)](const std::vector<links::endpoint>& where) {
      role_orders orders = orders_of(options, where.front());
      orders.variables.push_back(fmt::format("{}={}", parent_variable, ::getppid()));
      supervised->start_roles(orders);
    };
    gather.hopeless = [supervised] { return supervised->hopeless(); };
    return gather;
  }
  gather.on_listening = [&children, options = std::move(options)](const std::vector<links::endpoint>& where) {
    children.start(orders_of(options, where.front()));
  };
  gather.hopeless = [&children] { return children.missing(); };
  return gather;
}

namespace {

/// Reads the credentials of a process that --processes has started: its parent's, with the key from its environment.
result<links::credentials> read_role_credentials() {
  const char* key_text = std::getenv(tls_key_variable);
  auto token = links::read_token(std::nullopt);
  if (!token || key_text == nullptr) return bad_input("no token");
  links::credentials mine{std::move(*token)};
  if (*key_text == '\0') return mine;
  const auto key = links::to_token_key(key_text);
  if (!key) return bad_input("no key");
  auto made = links::make_tls(*key);
  if (!made) return run_fault(std::move(made.error().message));
  mine.tls = std::move(*made);
  return mine;
}

/// Reads the order to a process that `role_processes` has started, from its environment.
result<nodes::node_options> read_role_order() {
  const char* master = std::getenv(master_variable);
  const auto where = master == nullptr ? std::nullopt : links::parse_endpoint(master);
  const auto dead_after = number_in<std::uint32_t>(dead_after_variable);
  const auto request_timeout = number_in<std::uint32_t>(request_timeout_variable);
  auto mine = read_role_credentials();
  if (!where || !dead_after || !request_timeout || !mine)
    return bad_input(
        "--role is for the processes that --processes starts; use 'troupe join', or --join of a program of your own");
  nodes::node_options order;
  order.master = *where;
  order.network.mine = std::move(*mine);
  order.network.dead_after = std::chrono::milliseconds(*dead_after);
  order.network.request_timeout = std::chrono::milliseconds(*request_timeout);
  // An empty variable counts as absent.
  auto machine = read_machine_options([](const std::string& name) -> std::optional<std::string> {
    const std::map<std::string, const char*> variables = {{"threads", threads_variable},
                                                          {"prepare", prepare_variable},
                                                          {"device", device_variable},
                                                          {"server-device", server_device_variable},
                                                          {"devices", devices_variable}};
    if (!variables.contains(name)) return std::nullopt;  // only runs in one process use the option
    const char* text = std::getenv(variables.at(name));
    const bool is_none = text == nullptr || *text == 0 || (name == "threads" && std::string_view(text) == "0");
    return is_none ? std::nullopt : std::optional<std::string>(text);
  });
  if (!machine) return tl::unexpected<fault>(std::move(machine.error()));
  static_cast<machine_options&>(order) = std::move(*machine);
  order.batch_threads.sharers = number_in<std::size_t>(trainers_variable).value_or(1);
  return order;
}

}  // namespace

result<void> play_role(const std::string& role, const std::string& rank, actors::trainer_maker make_trainer,
                       console& out, std::optional<std::vector<model::setting>> expected) {
  if (const auto parent = number_in<pid_t>(parent_variable)) end_with_parent(*parent);
  stop_on_signals();
  release_signals();
  TROUPE_TRY(options, read_role_order());
  options.expected_job = std::move(expected);
  const auto number = parse_number<std::uint32_t>(rank);
  if ((role != "server" && role != "trainer") || !number) return bad_input("--role server|trainer takes --rank N");
  out.set_name(fmt::format("{} {}", role, *number));
  options.trains = role == "trainer";
  options.rank = *number;
  options.leader_reports = true;
  options.join_timeout = options.network.dead_after / 2;  // the master listens already
  options.make_trainer = std::move(make_trainer);
  TROUPE_TRY(wanted, read_trace_options(std::vector<model::setting>()));
  return take_part(std::move(options), wanted, true, out);  // the master's process reports recordings
}

}  // namespace troupe::launch
