// A function that is only called while it is passed down: its captures need no allocation.

#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace troupe {

template <class Signature>
class function_ref;

/// A parameter type that refers to a callable object, which must outlive it.
template <class Result, class... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, function_ref> && std::is_invocable_r_v<Result, F&, Arguments...>)
      function_ref(F&& what)  // NOLINT(google-explicit-constructor, bugprone-forwarding-reference-overload)
      : what_(const_cast<void*>(static_cast<const void*>(std::addressof(what)))),
        call_([](void* at, Arguments... given) -> Result {
          return std::invoke(*static_cast<std::add_pointer_t<F>>(at), std::forward<Arguments>(given)...);
        }) {}

  Result operator()(Arguments... given) const { return call_(what_, std::forward<Arguments>(given)...); }

 private:
  void* what_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace troupe
