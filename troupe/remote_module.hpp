// Modules on parameter servers: modules of networks, tables of rows, and users' objects (remote_object.hpp). A handle
// can be copied, passed to every trainer, and passed in calls. A module that was made during the run is freed with its
// last handle; one that main has made lives as long as the run.
//
// Every call has a deadline: `handle.with_deadline(std::chrono::seconds(2)).call(...)`; its error names callee, method
// and time.

#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/context.hpp"
#include "troupe/future.hpp"
#include "troupe/layers.hpp"
#include "troupe/module.hpp"
#include "troupe/packed.hpp"
#include "troupe/remote_object.hpp"
#include "troupe/state.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trained.hpp"

namespace troupe {

/// The interface of all handles. Functions throw `error` if the handle has been released.
class remote_handle {
 public:
  /// Returns names and shapes of the tensors that optimizers train: those of a network's module, as in its
  /// `parameters`, or `weight` [num_embeddings, embedding_dim] of a table. An object has none; its tensors are in its
  /// state.
  future<std::vector<nn::parameter>> parameters() const;
  /// Returns the module's tensors, without its optimizer's state; a trainer that trains it gets those after its last
  /// optimizer step.
  future<named_tensors> state_dict() const;
  /// Replaces them. Fails if names or shapes do not fit, and then changes nothing. Servers that share a table are asked
  /// twice, each time within the deadline: no shard is loaded before all have accepted theirs. Await it before other
  /// calls, which might come in between.
  ///
  /// A resumed run, also one that restarted after a fault, has restored what `main` has made. There a trainer's call
  /// changes nothing until its loop has reached the saved position, since its state was loaded before; later calls work
  /// as usual. Calls from clients, methods of objects and users' threads have no position: in a resumed run they are
  /// refused for a restored module.
  future<> load_state_dict(const named_tensors& state) const;
  /// Moves the module to another device of its server: `cpu`, `cuda:0`. Fails if the module has no code for it.
  future<> to(const std::string& device) const;

  /// Releases the handle and all its copies in this process: calls by them are errors from then on.
  void release() const;

  const std::shared_ptr<const runtime::reference>& reference() const { return reference_; }

 protected:
  remote_handle() = default;
  explicit remote_handle(std::shared_ptr<const runtime::reference> of) : reference_(std::move(of)) {}

  future<named_tensors> ask_for_state(bool with_optimizer) const;
  void call_by_name(const std::string& method, detail::packed arguments,
                    std::function<void(detail::packed&, const std::exception_ptr&)> then) const;
  [[noreturn]] void not_described() const;

  std::shared_ptr<const runtime::reference> reference_;
  std::chrono::milliseconds deadline_ = default_deadline;
};

/// A module of type `Module` on a server.
template <class Module>
class remote_module : public remote_handle {
 public:
  remote_module() = default;
  explicit remote_module(std::shared_ptr<const runtime::reference> of) : remote_handle(std::move(of)) {}

  /// Returns a copy of the handle whose calls have that deadline.
  remote_module with_deadline(std::chrono::milliseconds deadline) const {
    remote_module copy = *this;
    copy.deadline_ = deadline;
    return copy;
  }

  /// Applies a module of a network to `input`, as of the trainers' last optimizer step; records it in `in` for
  /// `backward`.
  future<tensor> forward(context& in, const tensor& input) const requires std::derived_from<Module, nn::module>;
  /// The same outside of any context, as of the newest optimizer step.
  future<tensor> infer(const tensor& input) const requires std::derived_from<Module, nn::module>;
  /// Called by optimizers.
  runtime::trained trained() const requires std::derived_from<Module, nn::module> { return reference_; }

  /// Calls a method that the type describes. Fails with the method's exception.
  template <class R, class... P, class... A>
  requires(sizeof...(P) == sizeof...(A)) future<detail::unwrapped_t<R>> call(R (Module::*method)(P...),
                                                                             A&&... arguments)
  const { return call_method<R, P...>(detail::key_of(method), std::forward<A>(arguments)...); }
  template <class R, class... P, class... A>
  requires(sizeof...(P) == sizeof...(A)) future<detail::unwrapped_t<R>> call(R (Module::*method)(P...) const,
                                                                             A&&... arguments)
  const { return call_method<R, P...>(detail::key_of(method), std::forward<A>(arguments)...); }

 private:
  template <class R, class... P, class... A>
  future<detail::unwrapped_t<R>> call_method(const detail::method_key& key, A&&... arguments) const {
    using value = detail::unwrapped_t<R>;
    const detail::method* const method = detail::methods_of<Module>().find(key);
    if (method == nullptr) not_described();
    detail::packed given;
    (detail::pack<std::decay_t<P>>(given, std::forward<A>(arguments)), ...);
    auto answer = std::make_shared<promise<value>>();
    auto coming = answer->get_future();
    call_by_name(method->name, std::move(given), [answer](detail::packed& result, const std::exception_ptr& thrown) {
      if (thrown) return answer->fail(thrown);
      try {
        if constexpr (std::is_void_v<value>) {
          answer->set();
        } else {
          detail::unpacker from(result);
          answer->set(detail::unpack<value>(from));
        }
      } catch (...) {
        answer->fail(std::current_exception());
      }
    });
    return coming;
  }
};

namespace detail {
future<tensor> forward_remote(context& in, const std::shared_ptr<const runtime::reference>& receiver,
                              std::chrono::milliseconds deadline, const tensor& input);
future<tensor> infer_remote(const std::shared_ptr<const runtime::reference>& receiver,
                            std::chrono::milliseconds deadline, const tensor& input);
}  // namespace detail

template <class Module>
future<tensor> remote_module<Module>::forward(
    context& in, const tensor& input) const requires std::derived_from<Module, nn::module> {
  return detail::forward_remote(in, reference_, deadline_, input);
}
template <class Module>
future<tensor> remote_module<Module>::infer(const tensor& input) const requires std::derived_from<Module, nn::module> {
  return detail::infer_remote(reference_, deadline_, input);
}

/// Selects the tensors of a table's state besides the rows, `weight`.
struct table_state_options {
  /// The buffers of the table's optimizer: `state.0`, `state.1`, and so on; if it has any, also an entry of one number
  /// whose name is the optimizer's, such as `optimizer.adagrad`.
  bool optimizer = false;
};

/// A table of rows on a server.
template <>
class remote_module<nn::embedding_bag> : public remote_handle {
 public:
  remote_module() = default;
  explicit remote_module(std::shared_ptr<const runtime::remote_table> of);
  explicit remote_module(std::shared_ptr<const runtime::reference> of);

  /// Returns a copy of the handle whose calls, including `forward`, have that deadline.
  remote_module with_deadline(std::chrono::milliseconds deadline) const {
    remote_module copy = *this;
    copy.deadline_ = deadline;
    copy.lookup_deadline_ = deadline;
    return copy;
  }

  /// Looks up bags of rows, pooled: bag b has the rows `indices[offsets[b]]` to `indices[offsets[b + 1] - 1]`. Returns
  /// [bags, embedding_dim], as of the trainers' last optimizer step. Fails with `error` on an index out of range.
  /// Without `with_deadline`, the timeout is `--request-timeout`; none in one process.
  future<tensor> forward(context& in, std::span<const std::int64_t> indices,
                         std::span<const std::int64_t> offsets) const;

  /// Returns the rows as `weight` [num_embeddings, embedding_dim], as of this trainer's last optimizer step. Any table
  /// of that shape can load this state (`load_state_dict`); its optimizer keeps its own state. A state with the
  /// optimizer's needs a table with an optimizer of the same kind (`distributed_optimizer`).
  future<named_tensors> state_dict(const table_state_options& parts = {}) const {
    return ask_for_state(parts.optimizer);
  }

  /// Looks bags up outside of any context, as of the newest optimizer step; for a table that is spread over servers, as
  /// of the newest step of each.
  future<tensor> rows(std::span<const std::int64_t> indices, std::span<const std::int64_t> offsets) const;

  runtime::trained trained() const { return table_; }

 private:
  std::shared_ptr<const runtime::remote_table> table_;
  std::optional<std::chrono::milliseconds> lookup_deadline_;  ///< of `forward`; null: only the run's request timeout
};

}  // namespace troupe
