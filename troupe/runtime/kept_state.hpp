// A trainer's state in checkpoints, as tensors by name, and what a resumed run restores from it.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "protocol/messages.hpp"
#include "troupe/module.hpp"
#include "troupe/runtime/loop_places.hpp"
#include "troupe/state.hpp"

namespace troupe::runtime {

/// Belongs to a trainer.
class kept_state {
 public:
  /// Begins at the position of the order.
  void start(const msg::train& order);

  /// The positions of the trainer function's loops.
  loop_places& loops() { return loops_; }

  /// Whether the run continues from a checkpoint.
  bool is_resumed() const { return !restored_.empty(); }

  /// Notes an optimizer step of the trainer.
  void note_step() { has_stepped_ = true; }
  /// Whether the trainer has passed the position of the checkpoint: objects that it makes then begin anew.
  bool is_beyond() const { return has_stepped_ || std::is_gt(loops_.against_saved()); }
  /// Whether the function repeats what it did before the checkpoint.
  bool does_again() const { return is_resumed() && !has_stepped_ && loops_.is_before_saved(); }
  /// Whether an object that is made now continues from the checkpoint's tensors with this name prefix. Exactly at the
  /// position of the checkpoint it does if there are any.
  bool restores(const std::string& prefix) const {
    return is_resumed() && !is_beyond() && (std::is_lt(loops_.against_saved()) || has_any(prefix));
  }

  /// Whether the checkpoint has tensors with this name prefix.
  bool has_any(const std::string& prefix) const;

  /// Returns a tensor of the checkpoint. Throws `error` if none has this name and type.
  template <class T>
  std::vector<T> restored(const std::string& name) const {
    const auto numbers = find(name, dtype_of<T>()).template as<T>();
    return {numbers.begin(), numbers.end()};
  }

  /// Saves an object's state in checkpoints; loads it now if the run is resumed. Throws `error` if checkpoints cannot
  /// use the name or, in a run that saves, the names of the state's tensors, or if the name is in use.
  void keep(const std::string& name, std::function<named_tensors()> state,
            const std::function<void(const named_tensors&)>& load);

  /// Copies the objects' state, unless they are gone: the state of the last step is saved after the trainer function,
  /// which owns them, has ended.
  void hold();
  void end() { is_over_ = true; }

  /// Adds the state of this trainer alone: the objects', and `numbers` by name.
  void put_own(msg::save_dense& into, const std::map<std::string, std::vector<std::int64_t>>& numbers) const;
  /// Returns numbers that `put_own` has saved by this name, in a resumed run.
  std::vector<std::int64_t> restored_own(const std::string& name) const {
    return restored<std::int64_t>(own_name(name));
  }
  bool has_own(const std::string& name) const { return places_.contains(own_name(name)); }

 private:
  std::string own_name(const std::string& name) const;
  static void check_parts(const std::string& name, const std::string& prefix, const named_tensors& parts);
  const msg::tensor& find(const std::string& name, dtype type) const;
  named_tensors restored_state(const std::string& prefix) const;

  struct saved_tensor {
    std::string name;
    std::vector<std::uint64_t> lengths;
    msg::tensor numbers;
  };

  loop_places loops_;
  bool has_stepped_ = false;  ///< since the run began
  bool is_over_ = false;      ///< the objects are gone
  bool saves_ = false;        ///< the run saves checkpoints
  std::map<std::string, named_tensors> held_;
  std::uint32_t rank_ = 0;
  std::vector<saved_tensor> restored_;         ///< in the order of saving
  std::map<std::string, std::size_t> places_;  ///< indices in `restored_`, by name
  std::map<std::string, std::function<named_tensors()>> kept_;
};

/// Adds the tensors of a flat buffer to the state to save, each as PREFIX.NAME with `suffix`.
void put_flat(msg::save_dense& into, const std::string& prefix, const std::vector<nn::parameter>& tensors,
              const std::string& suffix, const msg::tensor& flat);

}  // namespace troupe::runtime
