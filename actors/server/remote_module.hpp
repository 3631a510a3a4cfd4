// The modules of a parameter server: one interface, and the registry of the types that specifications name.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "model/checkpoint/tensors.hpp"
#include "model/exact_sum.hpp"
#include "model/kept_rows.hpp"
#include "model/table_batch.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The trainers and batches whose gradients make up a context.
struct contributors {
  std::uint32_t trainers = 0;  ///< trainers that had a batch
  std::uint64_t batches = 0;   ///< batches of all these trainers
};

/// The result of a called method, without a header; or its error.
using call_result = caf::expected<msg::returned>;
using call_return = std::function<void(call_result)>;

class remote_module;

/// The server that hosts a module, as the module sees it. Thread: the server's, except for `post`.
class module_host {
 public:
  virtual ~module_host() = default;

  virtual std::uint32_t rank() const = 0;
  virtual std::uint64_t run() const = 0;
  virtual caf::strong_actor_ptr actor() const = 0;
  /// The name in error lines, such as `server 0`.
  virtual const std::string& name() const = 0;

  /// Makes a module of a registered type.
  virtual caf::expected<std::unique_ptr<remote_module>> make(const msg::instantiate& order) = 0;
  /// Hosts another module, and returns its number.
  virtual std::uint64_t add(std::unique_ptr<remote_module> made) = 0;
  /// Returns a module, or null.
  virtual remote_module* find(std::uint64_t module) = 0;
  /// Frees a module, after the current message.
  virtual void remove(std::uint64_t module) = 0;
  /// Returns the batch that the server's tables on its device join. Null for the processor: there each table is alone,
  /// and idle threads process tables side by side.
  virtual std::shared_ptr<model::table_batch> tables_on(kernels::device& where) = 0;
  /// Sets the rules of optimizer steps: the trainers whose gradients form a step, and the order's other rules. Returns
  /// an error if other rules were set before.
  virtual caf::error expect_trainers(const msg::instantiate& order) = 0;

  /// Has the server run `what` after its waiting messages, and not before `delay` has passed; never if it has ended.
  /// Thread: any.
  virtual void post(std::function<void()> what, std::chrono::microseconds delay) = 0;
  /// Calls a method of a module of server `rank`, and `then` once with the result, unless this server ends before.
  /// Fills in the header.
  virtual void call(std::uint32_t rank, msg::call what, call_return then) = 0;
  /// The same, without an answer.
  virtual void send(std::uint32_t rank, msg::call what) = 0;
};

/// The parts of a module's state: its weights, or also the buffers of its optimizer.
enum class state_parts : std::uint8_t { weights, all };

/// A module on a parameter server, or one shard of it. Belongs to that server. Errors have one line of context, without
/// the server's name. The default methods are those of a module without tables, optimizer and state.
class remote_module {
 public:
  virtual ~remote_module() = default;

  /// Describes the module for errors, as in `table 2`.
  virtual std::string description() const { return "a module"; }

  /// Chooses the optimizer and its initial state. Returns an error if it is invalid, or not the one chosen before.
  virtual caf::error set_optimizer(const msg::set_optimizer& /*chosen*/) {
    return protocol::make_failure(protocol::errc::bad_input, "an optimizer of a module without parameters");
  }

  /// Prepares a lookup that is parked until its step. Returns an error if it is invalid.
  virtual caf::error expect(const msg::bag_lookup& /*wanted*/) { return no_table(); }

  /// Waits for a begun lookup, and returns its rows. Call at most once, while the module exists.
  using lookup_future = std::function<msg::tensor()>;

  /// Begins to look up rows, as `type`. The rows go to the columns that the message offers, if those are on the
  /// module's device. Several lookups may begin before the first is awaited: then the lookups of tables on one device
  /// run together, and a lookup that is never awaited may never run.
  virtual caf::expected<lookup_future> lookup(const msg::bag_lookup& /*wanted*/, kernels::row_dtype /*type*/) {
    return no_table();
  }

  /// Returns whether its work may take any time: its type is registered by a program.
  virtual bool runs_users_code() const { return false; }

  /// Returns whether other threads may look up, collect and apply while the server waits for them, one thread per
  /// module.
  virtual bool runs_on_any_thread() const { return false; }

  /// Returns an error if `grad` is no gradient of this module. Called when it arrives.
  virtual caf::error check(const msg::bag_gradient& /*grad*/) const { return no_table(); }

  /// Collects the gradients of a context, in rank order. Returns an error if they exceed the limit of an optimizer
  /// step. Requires: `grads` stay in memory until the step is finished or, if it is not applied, until the next
  /// `collect`.
  virtual caf::error collect(std::span<const msg::bag_gradient* const> /*grads*/, contributors /*from*/) { return {}; }

  /// Returns the squared norm of the collected gradient, scaled as in `apply`.
  virtual model::exact_sum squared_norm() { return {}; }

  /// Begins optimizer step `update` (from 1) with the collected gradient times `factor`.
  virtual void apply(std::uint64_t /*update*/, float /*factor*/) {}
  /// Drops that optimizer step, with everything that its passes have changed.
  virtual void leave_out() {}

  /// Waits for the first step that is not finished. Returns an error if a gradient was NaN or Inf.
  virtual caf::error finish() { return {}; }
  /// Returns whether `finish` waits for a device. If so, the server calls it just before the next `collect` (if steps
  /// are captured as graphs, before the `collect` after that): the device then has had time to finish, and the host
  /// does not wait within the step.
  virtual bool finishes_later() const { return false; }
  /// Has the device begin the step. Called for modules that finish later, when all have been applied.
  virtual void launch() {}

  virtual std::vector<msg::parameter_info> parameters() const { return {}; }
  virtual msg::state_entries state_dict(state_parts /*which*/) { return {}; }
  /// Returns the name of the optimizer whose buffers the state has, such as `adagrad`; "": it has none.
  virtual std::string state_owner() const { return {}; }
  /// Loads weights, and the optimizer's buffers if they are complete. Returns an error, and changes nothing, if the
  /// entries belong to another module.
  virtual caf::error load_state_dict(const msg::state_entries& /*entries*/) { return {}; }
  /// Returns the error of `load_state_dict`, and loads nothing.
  virtual caf::error check_state_dict(const msg::state_entries& /*entries*/) { return {}; }

  /// The result of `save`: the file, and the tensors in it.
  struct saved {
    model::saved_file file;
    std::vector<msg::parameter_info> parts;
  };
  /// Writes weights and optimizer state to a new file in `folder`.
  virtual caf::expected<saved> save(const std::string& /*folder*/) { return no_table(); }

  /// Keeps the current weights and optimizer state for `begin_save`, while optimizer steps continue. A module that does
  /// nothing here is saved before the next step.
  virtual void keep(const std::shared_ptr<model::memory_allowance>& /*memory*/) {}
  /// Called before the collected gradient is applied. Returns false if that would destroy kept state: ask again when
  /// memory has been released.
  virtual bool make_way() { return true; }
  /// Drops the kept state.
  virtual void forget() {}
  /// Returns the call that writes the kept state, or else the current one, as `save` does. Thread of that call: any.
  virtual std::function<caf::expected<saved>()> begin_save(const std::string& folder) {
    return [made = save(folder)] { return made; };
  }

  /// Reads weights and optimizer state from a checkpoint, whatever its number of shards. If trainers choose the
  /// optimizer later, `set_optimizer` reads its state.
  virtual caf::error restore(const model::checkpoint& /*from*/) { return no_table(); }
  /// Returns whether it started from a checkpoint.
  virtual bool is_restored() const { return false; }

  /// Calls a method. Returns its result; or nullopt, and later passes the result to the function that `later` returns.
  virtual std::optional<call_result> call(msg::call& what, const std::function<call_return()>& later);

  /// Returns the digests [count, 1] of the bits of `count` local rows from row `first` on. Returns an error if the
  /// shard lacks such rows, if they are more than `row_digests_max`, or if a weight is NaN or Inf.
  virtual caf::expected<msg::tensor> row_digests(std::uint64_t /*first*/, std::uint64_t count) const {
    return msg::tensor::own(count, 1, std::vector<std::uint64_t>(count));
  }

 private:
  static caf::error no_table() {
    return protocol::make_failure(protocol::errc::bad_input, "this module is not a table");
  }
};

/// Writes the file of a module, or of a shard of it, into a checkpoint's folder. `place`: its index among the run's
/// modules. Thread: any.
caf::expected<remote_module::saved> write_module(const std::string& folder, std::size_t place, model::shard_of shard,
                                                 std::span<const model::tensor_view> tensors);

/// Returns the optimizer that a message chooses. Errors: it is invalid.
caf::expected<model::optimizer_spec> optimizer_of(const msg::set_optimizer& chosen, model::optimizer_use use);

/// Returns the error for a choice for module `of` that differs from the previous one, `before`.
caf::error other_optimizer(const std::string& of, const msg::set_optimizer& chosen,
                           const model::optimizer_spec& before);

/// Makes modules of a type. `where`: the device of the server's tables.
using module_maker = std::function<caf::expected<std::unique_ptr<remote_module>>(
    const msg::instantiate& order, module_host& host, kernels::device& where)>;

/// Adds a type that servers of this process can make. The type with an empty name is made once on each server, and
/// called as module 0. Thread: any; before the first server.
void add_module_type(const std::string& name, module_maker make);

/// Makes the module, or the shard of it, that `order` specifies, in the memory of `where`. Types: `EmbeddingBag` with
/// the arguments num_embeddings, embedding_dim, mode (sum, mean, max), table, seed, optimizer (as in
/// `--sparse-optimizer`), lr, reduce (sum, mean); they may have dtype (as in `--row-dtype`, f32), lr_schedule (as in
/// `--lr-schedule`, constant) and init (normal:DEVIATION or uniform:LEAST,MOST, normal:1).
caf::expected<std::unique_ptr<remote_module>> make_remote_module(const msg::instantiate& order, module_host& host,
                                                                 kernels::device& where);

/// The same for the type `EmbeddingBag`. `batch`: a batch on `where` that the table joins; null: it is alone.
caf::expected<std::unique_ptr<remote_module>> make_remote_embedding_bag(
    const msg::instantiate& order, kernels::device& where, std::shared_ptr<model::table_batch> batch = nullptr);

}  // namespace troupe::actors
