// A server of a run, as trainers, clients and methods of remote objects see it: they make modules there.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/arguments.hpp"
#include "troupe/future.hpp"
#include "troupe/remote_module.hpp"

namespace troupe {

/// A server during the run. Copies are the same one.
class remote_server {
 public:
  explicit remote_server(std::uint32_t rank) : rank_(rank) {}

  /// Makes a module of a registered type: `co_await me.server(0).make<counter>(arg("from", 3))`. Fails with `error` as
  /// its constructor does.
  template <detail::can_be_remote Module, class... Arguments>
  future<remote_module<Module>> make(const Arguments&... named) const {
    return make_named<Module>(detail::type_name(typeid(Module)), {named...});
  }
  /// Makes a table.
  template <std::same_as<nn::embedding_bag> Module>
  future<remote_module<Module>> make(const nn::embedding_bag::options& options) const {
    return make_named<Module>("", {}, &options);
  }

 private:
  using made = std::function<void(std::shared_ptr<const runtime::reference>, const std::exception_ptr&)>;

  template <class Module>
  future<remote_module<Module>> make_named(const std::string& type, const std::vector<arg>& named,
                                           const nn::embedding_bag::options* table = nullptr) const {
    auto answer = std::make_shared<promise<remote_module<Module>>>();
    auto coming = answer->get_future();
    make_module(type, named, table,
                [answer](std::shared_ptr<const runtime::reference> one, const std::exception_ptr& thrown) {
                  if (thrown)
                    answer->fail(thrown);
                  else
                    answer->set(remote_module<Module>(std::move(one)));
                });
    return coming;
  }

  void make_module(const std::string& type, const std::vector<arg>& named, const nn::embedding_bag::options* table,
                   made then) const;

  std::uint32_t rank_;
};

}  // namespace troupe
