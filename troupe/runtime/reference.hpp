// A reference to a module on a server, shared by handles. The server counts references by the actors that hold them,
// and frees a module without references.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/runtime/actor_executor.hpp"

namespace troupe::runtime {

/// Identifies a module.
struct module_identity {
  std::string type;
  std::string label = {};    ///< distinguishes modules of a type for users; may be empty
  std::string details = {};  ///< for handles of the type, such as a table's shape
};

/// Thread: any.
class reference {
 public:
  /// Refers to a module that main has planned, with a shard on each of the servers; `planned`: its index among the
  /// run's. It lives as long as the run.
  static std::shared_ptr<const reference> of_planned(module_identity what, std::vector<std::uint32_t> servers,
                                                     std::size_t planned) {
    const auto made = std::make_shared<reference>(std::move(what), servers.front(), std::uint64_t{0}, nullptr);
    made->servers_ = std::move(servers);
    made->planned_ = planned;
    return made;
  }
  /// `holder`: the actor that it is counted for; null: it is not counted.
  reference(module_identity what, std::uint32_t server, std::uint64_t module, std::shared_ptr<actor_executor> holder)
      : what_(std::move(what)), servers_{server}, module_(module), holder_(std::move(holder)) {}
  ~reference() { release(); }

  reference(const reference&) = delete;
  reference& operator=(const reference&) = delete;

  const module_identity& what() const { return what_; }
  /// Returns the rank of the server that has the shard.
  std::uint32_t server(std::size_t shard = 0) const { return servers_[shard]; }
  std::size_t shards() const { return servers_.size(); }
  /// Nullopt: `module` is valid instead.
  std::optional<std::size_t> planned() const { return planned_; }
  std::uint64_t module() const { return module_; }
  bool is_counted() const { return holder_ != nullptr; }

  /// For error lines: `counter on server 0`, with a method `counter.add on server 0`, with a label `embedding_bag.rows
  /// of users on server 0`. With several shards, it names the server of `shard`, or the number of servers.
  std::string description(const std::string& method = {}, std::optional<std::size_t> shard = {}) const;

  /// Releases it; a second call does nothing.
  void release() const;
  /// Throws `error` if it has been released.
  void check_usable(const std::string& method) const;
  /// Throws `error` if it is spread over servers: messages only carry references to modules of one server.
  void check_whole() const;

 private:
  module_identity what_;
  std::vector<std::uint32_t> servers_;  ///< by shard
  std::optional<std::size_t> planned_;
  std::uint64_t module_ = 0;
  std::shared_ptr<actor_executor> holder_;
  mutable std::atomic<bool> is_released_ = false;
};

using reference_ptr = std::shared_ptr<const reference>;

}  // namespace troupe::runtime
