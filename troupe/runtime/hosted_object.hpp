// An object of a user's type on a server: runs its methods one at a time, and joins batched calls.

#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/stop_grace.hpp"
#include "troupe/remote_object.hpp"
#include "troupe/runtime/module_service.hpp"

namespace troupe::runtime {

/// Belongs to the server.
class hosted_object final : public actors::remote_module, public module_with_state {
 public:
  hosted_object(std::string type, std::unique_ptr<remote_object> object, const detail::method_table& methods,
                const hosting& how, actors::module_host& host, module_service& service);

  bool runs_users_code() const override { return true; }
  std::optional<actors::call_result> call(msg::call& what, const std::function<actors::call_return()>& later) override;

  /// Returns a digest of its state, to compare runs.
  caf::expected<msg::tensor> row_digests(std::uint64_t first, std::uint64_t count) const override;

  caf::expected<saved> save(const std::string& folder) override;
  caf::error restore(const model::checkpoint& from) override;
  bool is_restored() const override { return is_restored_; }

  named_tensors state_of() override;
  std::vector<nn::parameter> trained() const override { return {}; }
  void load(const named_tensors& state) override;
  void move_to(const std::string& device) override;

 private:
  class open_answer;

  struct waiting_call {
    tensor rows;
    detail::reply give;
  };
  /// Calls of a batched method that wait to be joined.
  struct batch {
    std::vector<waiting_call> calls;
    std::size_t rows = 0;
    std::uint64_t number = 0;  ///< of the batch among those of the method
  };
  struct running {
    running_task task = {};
    bool is_done = false;
  };

  std::string description(const std::string& method) const;
  /// Marks this thread as inside that method until the result is destroyed. Requires: the name outlives it.
  code_under_way entered(std::string_view method) const;
  void join(const detail::method& what, detail::packed& given, detail::reply give);
  void call_joined(const detail::method& what, batch& all);

  std::string type_;
  hosting how_;
  std::uint32_t server_;
  std::unique_ptr<remote_object> object_;
  const detail::method_table& methods_;
  actors::module_host& host_;
  module_service& service_;
  bool is_restored_ = false;
  std::map<const detail::method*, batch> batches_;
  std::shared_ptr<hosted_object*> me_;  ///< null once the object is gone; for posted callbacks
  std::list<running> tasks_;            ///< destroyed first: they use the object
};

}  // namespace troupe::runtime
