// Tables on one device that share launches: a lookup in several of them, or an optimizer step of all, needs as many
// launches as one table of each width would, and the host waits once per step. `embedding_bag` makes the calls.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/stream_timer.hpp"

namespace troupe::model {

/// Owns the tables' stream. Thread: one at a time.
class table_batch {
 public:
  explicit table_batch(kernels::device& where) : on_(where.make_stream()) {}

  /// Returns the stream on which all work of the tables is ordered.
  kernels::stream& stream() const { return *on_; }

  /// The names of `timer`'s spans, by kind of work.
  struct span_names {
    std::uint16_t pool = 0;    ///< pooling rows
    std::uint16_t copy = 0;    ///< copying pooled rows to the host
    std::uint16_t group = 0;   ///< grouping gradients by row
    std::uint16_t update = 0;  ///< updating rows
  };
  /// From now on times the device's work. Waits for the device.
  void time_work(const span_names& names) {
    names_ = names;
    timer_.start(*on_);
  }
  kernels::stream_timer& timer() { return timer_; }

  // -- lookups --------------------------------------------------------------------------------------------------------

  /// A lookup that has begun.
  struct lookup {
    std::size_t dim = 0;
    kernels::row_dtype type = kernels::row_dtype::f32;
    kernels::bag_pass pass;
    std::function<void()> then;                    ///< enqueues the work that follows the lookup; may be empty
    std::shared_ptr<const kernels::event> done{};  ///< recorded after `then`; null until it is launched
  };

  /// Begins a lookup; `look_up` launches it, unless it has been destroyed before. Requires: until then, the pass stays
  /// valid.
  std::shared_ptr<const lookup> begin(lookup wanted);

  /// Launches all begun lookups, those of one width together, and records one event after all of them.
  void look_up();

  // -- optimizer steps ------------------------------------------------------------------------------------------------

  /// A table's properties in a step. Tables that differ only in their rows are handled together.
  struct shape {
    std::int64_t rows = 0;
    std::size_t dim = 0;
    kernels::row_dtype type = kernels::row_dtype::f32;
    bool every_row = false;  ///< the optimizer visits every row
  };

  /// A table's position in a step.
  struct place {
    std::uint64_t step = 0;
    std::size_t width = 0;
    std::size_t table = 0;
  };

  /// Adds a table, with `indices` indices, to the step that is being collected. Begins another step if that one has
  /// been grouped, or already has the table, at `last`.
  place join(const shape& of, std::size_t indices, const place& last);

  /// Returns the gradient to which a table's contributions are added, as those of table `at.table`.
  kernels::table_gradient& gradient(const place& at) { return *widths_[at.width].gradient; }

  /// Groups the gradients of all tables. Does nothing if they are grouped.
  void group();

  /// Returns the squared norms of a table's touched rows, valid until the next call. Groups first; blocks.
  std::span<const double> norms(const place& at, float scale);

  /// Sets what `apply` does with a table. A table without it, or not in the step, is left alone.
  void set(const place& at, const kernels::table_step& step);

  /// Enqueues the optimizer step of all tables. Groups first.
  void apply();

  /// Calls `apply` for the first table of the step that needs it.
  void launch(const place& at) {
    if (is_in_step(at) && stage_ < stage::applied) apply();
  }

  /// Returns the first row of a step whose gradient is NaN or Inf, if it belongs to this table; else -1. Launches
  /// first; blocks until all tables' step is done. On a device the next steps may have been applied, up to
  /// `applies_max`.
  std::int64_t bad_row(const place& at);

  /// Removes a table, whose memory may be freed afterwards. Ends a step that is still being collected.
  void leave(const place& at) noexcept;

 private:
  /// Tables that are handled together; at most as many as one `table_gradient` handles.
  struct width {
    shape of;
    std::unique_ptr<kernels::table_gradient> gradient;
    std::vector<std::int64_t> first_rows;
    std::vector<kernels::table_step> steps;
    std::size_t indices = 0;
    std::optional<float> norms_scale;
    std::span<const std::span<const double>> norms;

    bool takes(const shape& table, std::size_t more) const;
  };

  enum class stage : std::uint8_t { collecting, grouped, applied, done };

  /// A step that has been applied, and whose result the tables read one by one.
  struct applied_step {
    std::uint64_t step = 0;
    std::unique_ptr<const kernels::event> done;           ///< null: it is done
    std::vector<std::vector<std::int64_t>> first_rows{};  ///< by width: the tables' first rows
    std::vector<std::int64_t> bad_rows{};                 ///< by width; empty: not known yet
  };

  void begin_step();
  applied_step& next_applied();
  void know(applied_step& one);
  bool is_in_step(const place& at) const { return at.step == step_; }

  std::unique_ptr<kernels::stream> on_;
  kernels::stream_timer timer_;
  span_names names_;
  std::vector<std::weak_ptr<lookup>> begun_;
  std::uint64_t step_ = 1;
  stage stage_ = stage::done;
  std::deque<applied_step> applied_;  ///< the last applied steps
  std::vector<width> widths_;         // widths without tables keep their memory for later steps
};

}  // namespace troupe::model
