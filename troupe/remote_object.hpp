// Users' objects on servers, whose methods can be called remotely. Derive from `remote_object`, describe the methods
// that can be called, and register the type by name:
//
//   class counter final : public remote_object {
//    public:
//     struct options {
//       std::int64_t from = 0;
//       static nn::option_fields<options> fields() {
//         return nn::option_fields<options>().integer("from", &options::from);
//       }
//     };
//     explicit counter(const options& chosen) : value_(chosen.from) {}
//     std::int64_t add(std::int64_t more) { return value_ += more; }
//     static void describe(methods<counter>& m) { m.add("add", &counter::add); }
//    ...
//   };
//   const registered<counter> counters("counter");  // at namespace scope: every process of a run has it
//
// `server.make<counter>({.from = 3})` makes one. A type without options is made by its default constructor.
//
// A server runs one method at a time. A method that waits is a task: others run meanwhile. Arguments and results:
// packed.hpp. A method's exception is passed to its caller.

#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <typeindex>
#include <utility>
#include <vector>

#include "troupe/module.hpp"
#include "troupe/packed.hpp"
#include "troupe/remote_options.hpp"
#include "troupe/state.hpp"
#include "troupe/task.hpp"

namespace troupe {

/// The base of objects on servers.
class remote_object {
 public:
  remote_object() = default;
  remote_object(const remote_object&) = delete;
  remote_object& operator=(const remote_object&) = delete;
  virtual ~remote_object() = default;

  /// Returns the state to save. Default: empty.
  virtual named_tensors state_dict() const { return {}; }
  /// Restores that state. Throws `error` if it does not fit; the default does for any tensor.
  virtual void load_state_dict(const named_tensors& state);
};

/// How calls are joined to one batch.
struct batching {
  /// The most rows of a batch; a larger call runs alone.
  std::size_t max_batch_size = 64;
  /// How long the first call waits for others. 0: only calls that are already waiting for the server are joined.
  std::chrono::microseconds wait{0};
};

namespace detail {

/// Accepts the result of a method that waits, or its exception. Call once, on the server's thread.
using reply = std::function<void(packed, std::exception_ptr)>;

/// Lets a method's call return its result later.
class later {
 public:
  virtual ~later() = default;
  /// Returns the function that accepts the result.
  virtual reply answer() = 0;
  /// Runs a task of the object, which ends with the object at the latest.
  virtual void run(task<> what) = 0;
};

/// A member function pointer's bytes, as a key.
using method_key = std::array<std::byte, 2 * sizeof(void*)>;

template <class Method>
method_key key_of(Method method) {
  static_assert(sizeof method <= sizeof(method_key));
  method_key key = {};
  std::memcpy(key.data(), &method, sizeof method);
  return key;
}

struct method {
  std::string name;
  method_key key;
  /// Returns the result; nullopt if it comes later. Null for a batched method.
  std::function<std::optional<packed>(remote_object&, packed&, later&)> call = {};
  /// Maps rows [n, ...] to rows [n, ...].
  std::function<tensor(remote_object&, const tensor&)> call_batched = {};
  batching how = {};
};

/// The methods of a type. Does not change.
class method_table {
 public:
  explicit method_table(const std::type_index& of) : of_(of) {}
  /// Throws `error` if the type has a method of that name, or that method by another name.
  void add(method one);
  /// Returns the method, or null.
  const method* find(const std::string& name) const;
  const method* find(const method_key& key) const;
  std::string names() const;

 private:
  std::type_index of_;
  std::vector<method> all_;
};

/// The type of a call's result: the method's value, or that of its task.
template <class R>
struct unwrapped {
  using type = std::decay_t<R>;
};
template <class R>
struct unwrapped<task<R>> {
  using type = R;
};
template <class R>
using unwrapped_t = typename unwrapped<R>::type;

template <class R>
constexpr bool is_task = false;
template <class R>
constexpr bool is_task<task<R>> = true;

/// Runs a method that is a task. The arguments live in this frame.
template <class T, class R, class Method, class... P>
task<> run_method(T& object, Method method, std::tuple<P...> arguments, reply answer) {
  packed result;
  std::exception_ptr thrown;
  try {
    task<R> running = std::apply([&](auto&... each) { return (object.*method)(each...); }, arguments);
    if constexpr (std::is_void_v<R>) {
      co_await running;
    } else {
      auto value = co_await running;
      pack<R>(result, std::move(value));
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  answer(std::move(result), thrown);
}

template <class T, class R, class... P, class Method>
std::optional<packed> call_method(T& object, Method method, packed& given, later& answers) {
  auto arguments = unpack_all<P...>(given);
  if constexpr (is_task<R>) {
    answers.run(run_method<T, unwrapped_t<R>>(object, method, std::move(arguments), answers.answer()));
    return std::nullopt;
  } else {
    packed result;
    const auto call = [&](auto&... each) -> R { return (object.*method)(std::forward<P>(each)...); };
    if constexpr (std::is_void_v<R>)
      std::apply(call, arguments);
    else
      pack<unwrapped_t<R>>(result, std::apply(call, arguments));
    return result;
  }
}

}  // namespace detail

/// Describes which methods of T can be called, by their names in errors and traces. All throw `error` if T has a method
/// of that name already, or that method by another name.
template <class T>
class methods {
 public:
  explicit methods(detail::method_table& to) : to_(to) {}

  template <class R, class... P>
  void add(const std::string& name, R (T::*method)(P...)) {
    put<R, P...>(name, method);
  }
  template <class R, class... P>
  void add(const std::string& name, R (T::*method)(P...) const) {
    put<R, P...>(name, method);
  }

  /// Adds a method that maps rows [n, ...] to as many rows: calls that wait at the same time are joined to one with all
  /// of their rows, in the order of arrival.
  void add_batched(const std::string& name, tensor (T::*method)(const tensor&), const batching& how = {}) {
    put_batched(name, method, how);
  }
  void add_batched(const std::string& name, tensor (T::*method)(const tensor&) const, const batching& how = {}) {
    put_batched(name, method, how);
  }

 private:
  template <class R, class... P, class Method>
  void put(const std::string& name, Method method) {
    to_.add({.name = name,
             .key = detail::key_of(method),
             .call = [method](remote_object& object, detail::packed& given, detail::later& answers) {
               return detail::call_method<T, R, P...>(static_cast<T&>(object), method, given, answers);
             }});
  }
  template <class Method>
  void put_batched(const std::string& name, Method method, const batching& how) {
    to_.add({.name = name,
             .key = detail::key_of(method),
             .call_batched = [method](remote_object& object,
                                      const tensor& rows) { return (static_cast<T&>(object).*method)(rows); },
             .how = how});
  }

  detail::method_table& to_;
};

namespace detail {

template <class T>
const method_table& methods_of() {
  static const method_table table = [] {
    method_table made(typeid(T));
    methods<T> adds(made);
    T::describe(adds);
    return made;
  }();
  return table;
}

/// A type that servers can make.
struct registered_type {
  std::string name;
  /// Returns the default options.
  std::unique_ptr<remote_options> (*options)() = nullptr;
  const method_table& (*methods)() = nullptr;  ///< null: modules of networks have none
};

template <can_be_remote T>
registered_type described_type(const std::string& name) {
  registered_type what{name,
                       []() -> std::unique_ptr<remote_options> { return std::make_unique<remote_options_of<T>>(); }};
  if constexpr (std::derived_from<T, remote_object>) what.methods = &methods_of<T>;
  return what;
}

/// Throws `error` if another type has the name.
void register_type(const std::type_index& of, registered_type what);

/// Returns the name by which a type is registered. Throws `error` if it is not.
const std::string& type_name(const std::type_index& of);

}  // namespace detail

/// Registers T, so that servers can make it: from its nested `options`, whose `fields()` describe all of them
/// (nn/option_fields.hpp), by a constructor with `const options&`; or by its default constructor, if it has none.
/// Define one object for each T, at namespace scope.
template <detail::can_be_remote T>
class registered {
 public:
  explicit registered(const std::string& name) { detail::register_type(typeid(T), detail::described_type<T>(name)); }
};

}  // namespace troupe
