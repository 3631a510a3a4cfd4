// What a trainer's checkpoints hold, as tensors by name, and what a resumed run has of them.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "troupe/module.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Belongs to a trainer.
class kept_state {
 public:
  /// Begins where the order says.
  void start(const msg::train& order);

  /// Whether the run goes on from a checkpoint.
  bool is_resumed() const { return !restored_.empty(); }

  /// Returns a tensor of the checkpoint. Throws `error` if there is none of this name and type.
  template <class T>
  std::vector<T> restored(const std::string& name) const {
    const auto numbers = find(name, msg::dtype_of<T>()).template as<T>();
    return {numbers.begin(), numbers.end()};
  }

  /// Has checkpoints hold an object's state; loads it now if the run is resumed. Throws `error` if the name is taken.
  void keep(const std::string& name, std::function<named_tensors()> state,
            const std::function<void(const named_tensors&)>& load);

  /// Adds the state of this trainer alone: of the objects, and `numbers` under their names.
  void put_own(msg::save_dense& into, const std::map<std::string, std::vector<std::int64_t>>& numbers) const;
  /// The same, in a resumed run.
  std::vector<std::int64_t> restored_own(const std::string& name) const {
    return restored<std::int64_t>(own_name(name));
  }

 private:
  std::string own_name(const std::string& name) const;
  const msg::tensor& find(const std::string& name, msg::dtype type) const;
  named_tensors restored_state(const std::string& prefix) const;

  std::uint32_t rank_ = 0;
  std::map<std::string, std::pair<std::vector<std::uint64_t>, msg::tensor>> restored_;
  std::map<std::string, std::function<named_tensors()>> kept_;
};

/// Adds the tensors of a flat buffer to what is saved, each under PREFIX.NAME with `suffix`.
void put_flat(msg::save_dense& into, const std::string& prefix, const std::vector<nn::parameter>& tensors,
              const std::string& suffix, const msg::tensor& flat);

}  // namespace troupe::runtime
