#include "cluster/nodes/client.hpp"

#include <fmt/format.h>

#include <caf/all.hpp>
#include <memory>
#include <type_traits>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/links/io_thread.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/control_tunnel.hpp"
#include "cluster/nodes/master_connection.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

namespace {

using clock = std::chrono::steady_clock;

std::chrono::milliseconds left_until(clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}

/// Describes why there is no answer.
std::string reason(const caf::error& error, const client_options& options) {
  if (error == caf::sec::request_timeout || error == protocol::errc::timeout)
    return fmt::format("did not answer within {} s; --timeout allows more",
                       static_cast<double>(options.timeout.count()) / 1000);
  if (protocol::is_secondary(error))
    return "the run, or its attempt under way, has just ended; if it continues, ask again";
  return protocol::describe(error);
}

/// Sends a request through a connected tunnel and waits for the answer.
template <class Answer, class Message>
result<Answer> ask_through(control_tunnel& tunnel, const client_options& options, clock::time_point give_up,
                           Message message) {
  caf::actor_system_config config;
  config.config_file_path.clear();  // else CAF reads a file of the current directory
  config.set("caf.scheduler.max-threads", 1);
  add_network(config);
  caf::actor_system system(config);
  const auto failed = [&options](const caf::error& error) {
    return run_fault("master {}: {}", links::to_string(options.master), reason(error, options));
  };
  const auto master = find_master(system, tunnel, left_until(give_up), [](const std::string&) {});
  if (!master) return failed(master.error());
  result<Answer> outcome = run_fault("");
  const caf::scoped_actor self(system);
  auto request = self->request(*master, left_until(give_up), std::move(message));
  const auto fail = [&](const caf::error& error) { outcome = failed(error); };
  if constexpr (std::is_void_v<Answer>)
    request.receive([&] { outcome = {}; }, fail);
  else
    request.receive([&](Answer& answer) { outcome = std::move(answer); }, fail);
  return outcome;
}

template <class Answer, class Message>
result<Answer> ask_master(const client_options& options, Message message = {}) {
  const auto give_up = clock::now() + options.timeout;
  links::io_thread control;
  TROUPE_TRY(link, connect_to_master(control.io(), options.master, options.network, options.timeout, "client",
                                     links::random_token(), nullptr));
  const auto tunnel = std::make_shared<control_tunnel>(control.io(), link, client_message_bytes_max);
  message.head = msg::header_source(0, actors::client_number).next(0, 0);
  auto outcome = ask_through<Answer>(*tunnel, options, give_up, std::move(message));
  tunnel->close();
  return outcome;
}

}  // namespace

result<msg::run_status> ask_status(const client_options& options) {
  return ask_master<msg::run_status, msg::status>(options);
}

result<void> ask_stop(const client_options& options) { return ask_master<void, msg::stop>(options); }

result<void> ask_scale(const client_options& options, std::uint32_t trainers) {
  return ask_master<void>(options, msg::scale{{}, trainers});
}

}  // namespace troupe::nodes
