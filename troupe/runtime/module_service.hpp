// A server's own functions, as its module 0: makes and frees modules, returns and loads their state, and lets its
// modules call others.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "actors/server/remote_module.hpp"
#include "base/stop_grace.hpp"
#include "kernels/device.hpp"
#include "troupe/module.hpp"
#include "troupe/runtime/caller.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// The type of all modules that programs register, as servers know it; its first argument is the registered name.
inline const std::string own_module_type = "Registered";

/// Arguments of "make" with the run's rules, unless these are the defaults.
inline const std::string accumulate_of_run = "accumulate:";
inline const std::string staleness_of_run = "staleness:";

/// The position of a call in a resumed run: before the checkpoint's position, where the trainer has already made the
/// call, or past it. Callers other than trainers have no position.
enum class place_in_run : std::uint8_t { unknown, before_saved, new_ground };

/// Facts that a module's own arguments do not contain.
struct hosting {
  std::uint64_t table = 0;  ///< its index in the run's plan
  std::uint64_t key = 0;    ///< for its initial parameters
  /// The device that it starts on.
  kernels::device* where = &kernels::host_device();
};

/// A module that has state with shapes.
class module_with_state {
 public:
  virtual ~module_with_state() = default;
  virtual named_tensors state_of() = 0;
  /// The tensors that optimizers train.
  virtual std::vector<nn::parameter> trained() const = 0;
  /// Throws `error` if the state is another module's.
  virtual void load(const named_tensors& state) = 0;
  /// Checks the state as far as possible, and loads nothing.
  virtual void check(const named_tensors& /*state*/) const {}
  /// Moves it to another device. Throws `error` if it cannot run there.
  virtual void move_to(const std::string& device) = 0;
};

/// The calls of a server's modules. Belongs to the server.
class server_caller final : public caller {
 public:
  explicit server_caller(actors::module_host& host);

  std::uint32_t number() const override { return actors::server_number(host_.rank()); }
  void callback_threw(const std::exception_ptr& thrown) override;

 private:
  void send(std::uint32_t server, msg::call what, answer then) override;
  void send(std::uint32_t server, msg::call what) override;
  void wake_after(std::chrono::milliseconds delay) override;
  std::uint64_t planned_module(std::size_t planned, std::size_t shard) const override;

  actors::module_host& host_;
};

/// Belongs to the server.
class module_service final : public actors::remote_module {
 public:
  explicit module_service(actors::module_host& host);

  std::optional<actors::call_result> call(msg::call& what, const std::function<actors::call_return()>& later) override;

  caller& calls() { return calls_; }

  /// Returns a device of this server: `cpu`, `cuda:0`; `cuda` is its own. Throws `error` if there is no such device.
  kernels::device& device(const std::string& name) const;

 private:
  void make(detail::unpacker& from, std::uint32_t asker, detail::packed& result);
  void count(detail::unpacker& from);
  /// Handles a call about a module.
  void about(const std::string& method, detail::unpacker& from, detail::packed& result);
  /// `only_checks`: checks the state, but loads nothing.
  static void load_state(actors::remote_module& into, detail::unpacker& from, bool only_checks);
  actors::remote_module& module(std::uint64_t number, const std::string& method);

  actors::module_host& host_;
  server_caller calls_;
  const code_under_way under_way_;  ///< its tasks: code that runs in the executor of its calls
  /// The number of references to each module made during the run, by module and holder.
  std::map<std::uint64_t, std::map<std::uint32_t, std::int64_t>> holders_;
};

/// Names and shapes of tensors, as sent in messages.
using named_lengths = std::pair<std::string, std::vector<std::uint64_t>>;
std::vector<named_lengths> names_and_lengths(const std::vector<nn::parameter>& tensors);
/// Throws `error` if a shape has too many dimensions.
std::vector<nn::parameter> to_parameters(const std::vector<named_lengths>& all);

/// Converts between states and matrices, for any type of module.
named_tensors to_state(const msg::state_entries& entries);
/// Throws `error` if a tensor is not a matrix of floating-point numbers.
msg::state_entries from_state(const named_tensors& state);

/// Writes a module's numbers, each [count, 1], into a checkpoint's folder, without empty ones. `place`: its index among
/// the run's modules.
caf::expected<actors::remote_module::saved> save_parts(const std::string& folder, std::uint64_t place,
                                                       const msg::state_entries& parts);

/// Returns the error for the current exception, of `what`: `counter.add on server 0`.
caf::error error_in(const std::string& what);

}  // namespace troupe::runtime
