// A server of a run, for trainers, clients and methods of remote objects, which make modules there.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "troupe/future.hpp"
#include "troupe/remote_module.hpp"

namespace troupe {

/// A server during the run. Copies refer to the same one.
class remote_server {
 public:
  explicit remote_server(std::uint32_t rank) : rank_(rank) {}

  /// Makes a table, or a module of a registered type: `co_await me.server(0).make<counter>({.from = 3})`. Fails with
  /// the constructor's `error`.
  template <detail::can_be_made Module>
  future<remote_module<Module>> make(const detail::remote_options_type<Module>& options = {}) const {
    auto answer = std::make_shared<promise<remote_module<Module>>>();
    auto coming = answer->get_future();
    make_module(detail::wanted<Module>(options),
                [answer](std::shared_ptr<const runtime::reference> one, const std::exception_ptr& thrown) {
                  if (thrown)
                    answer->fail(thrown);
                  else
                    answer->set(remote_module<Module>(std::move(one)));
                });
    return coming;
  }

 private:
  using made = std::function<void(std::shared_ptr<const runtime::reference>, const std::exception_ptr&)>;

  void make_module(const detail::wanted_module& what, made then) const;

  std::uint32_t rank_;
};

}  // namespace troupe
