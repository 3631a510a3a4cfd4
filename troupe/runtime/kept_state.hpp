// What a trainer's checkpoints hold, as tensors by name, and what a resumed run has of them.

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
  /// Begins where the order says.
  void start(const msg::train& order);

  /// Where the trainer's function is.
  loop_places& loops() { return loops_; }

  /// Whether the run goes on from a checkpoint.
  bool is_resumed() const { return !restored_.empty(); }

  /// The trainer takes an optimizer step.
  void note_step() { has_stepped_ = true; }
  /// Whether the trainer has gone beyond the place of the checkpoint: what it makes then begins anew.
  bool is_beyond() const { return has_stepped_ || std::is_gt(loops_.against_saved()); }
  /// Whether what the function does now is done again: it was done before the checkpoint.
  bool does_again() const { return is_resumed() && !has_stepped_ && loops_.is_before_saved(); }
  /// Whether an object that is made now goes on from the checkpoint's tensors, whose names begin with `prefix`. At the
  /// very place of the checkpoint it does if there are any.
  bool restores(const std::string& prefix) const {
    return is_resumed() && !is_beyond() && (std::is_lt(loops_.against_saved()) || has_any(prefix));
  }

  /// Whether the checkpoint has tensors whose names begin with `prefix`.
  bool has_any(const std::string& prefix) const;

  /// Returns a tensor of the checkpoint. Throws `error` if there is none of this name and type.
  template <class T>
  std::vector<T> restored(const std::string& name) const {
    const auto numbers = find(name, dtype_of<T>()).template as<T>();
    return {numbers.begin(), numbers.end()};
  }

  /// Has checkpoints hold an object's state; loads it now if the run is resumed. Throws `error` if the name is taken,
  /// or checkpoints cannot keep it or, in a run that saves, those of the state's tensors.
  void keep(const std::string& name, std::function<named_tensors()> state,
            const std::function<void(const named_tensors&)>& load);

  /// Notes the objects' state, unless they are gone: that of the last step is saved when the trainer function, which
  /// owns them, is over.
  void hold();
  void end() { is_over_ = true; }

  /// Adds the state of this trainer alone: of the objects, and `numbers` under their names.
  void put_own(msg::save_dense& into, const std::map<std::string, std::vector<std::int64_t>>& numbers) const;
  /// The same, in a resumed run.
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
  bool has_stepped_ = false;  ///< since it began
  bool is_over_ = false;      ///< the objects are gone
  bool saves_ = false;        ///< the run saves checkpoints
  std::map<std::string, named_tensors> held_;
  std::uint32_t rank_ = 0;
  std::vector<saved_tensor> restored_;         ///< in the order in which they were saved
  std::map<std::string, std::size_t> places_;  ///< in `restored_`, by name
  std::map<std::string, std::function<named_tensors()>> kept_;
};

/// Adds the tensors of a flat buffer to what is saved, each under PREFIX.NAME with `suffix`.
void put_flat(msg::save_dense& into, const std::string& prefix, const std::vector<nn::parameter>& tensors,
              const std::string& suffix, const msg::tensor& flat);

}  // namespace troupe::runtime
