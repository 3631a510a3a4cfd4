// A compute device, the processor or a CUDA device: its memory, its streams, and the kernels that its streams run in
// order.
//
// The processor is a device whose memory is the host's and whose stream finishes each call before it returns, so code
// written for a device runs on both. stream_kernels.inc declares the kernels and defines their meaning. A CUDA device
// sums matrix products, norms and losses in its own order, and its exp and log differ in the last bits; sums of bags,
// rows and ranks have the same order on every device.
//
// Errors: every call throws `device_error` if the device fails; an asynchronous failure is thrown by `synchronize` at
// the latest, and from then on by every call. Pointers are device pointers unless a comment says host.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/embedding_bag.hpp"
#include "kernels/image.hpp"
#include "kernels/interaction.hpp"
#include "kernels/loss.hpp"
#include "kernels/normal.hpp"
#include "kernels/optimizer.hpp"

namespace troupe::kernels {

/// A device call failed. The text contains the device, the call, its error and what to try.
class device_error : public std::runtime_error {
 public:
  enum class reason : std::uint8_t {
    refused,   ///< the device or its libraries do not support the request, and would refuse it again
    memory,    ///< its memory, or the host's for copies to it, is full
    failed,    ///< the device, its driver or its connection to others failed; a new process may well succeed
    given_up,  ///< others failed, so that the caller would wait in vain
  };

  explicit device_error(const std::string& text, reason why = reason::refused) : std::runtime_error(text), why_(why) {}

  reason why() const { return why_; }

 private:
  reason why_;
};

/// The type that a matrix product rounds its factors to. Sums are always float32.
enum class matmul_precision : std::uint8_t { f32, tf32, bf16 };

/// Scheduling priority among a device's streams. The processor ignores it.
enum class stream_priority : std::uint8_t { usual, high };

/// Activation fused into a linear layer.
enum class activation : std::uint8_t { none, relu };

/// A factor of a linear layer's products: its numbers and, if `round_to_bf16` has rounded them already, the result.
struct product_factor {
  product_factor(const float* its_numbers, const std::uint16_t* rounded = nullptr)
      : numbers(its_numbers), in_bf16(rounded) {}

  const float* numbers;
  const std::uint16_t* in_bf16;  ///< null: a product that needs it rounds itself
};

/// Whether a factor is stored as it is or transposed.
enum class factor_form : bool { plain, transposed };

/// `count` products of matrices [m, k] and [k, n]. Each factor's matrices are consecutive, in the factor's form:
/// transposed ones are stored as [k, m], and [n, k].
struct batched_product_shape {
  std::size_t count = 0;
  std::size_t m = 0;
  std::size_t n = 0;
  std::size_t k = 0;
  factor_form a = factor_form::plain;
  factor_form b = factor_form::plain;
};

/// The bits of a row of a ReLU's mask, which marks the outputs that pass: `linear_forward`. cuBLASLt needs multiples of
/// 128.
constexpr std::size_t relu_mask_bits(std::size_t out) { return (out + 127) / 128 * 128; }

/// A point in a stream's order that other streams and the host can wait for. Thread: any.
class event {
 public:
  virtual ~event() = default;

  /// Returns whether the stream has reached it. Not before the graph of its step is launched (`step_graphs`).
  virtual bool is_over() const = 0;

  /// Blocks until the stream has reached it. Launches the graph of its step, if it is still being captured.
  virtual void wait() const = 0;
};

/// A point in a stream's order whose time the device records by its own clock; it may be recorded again. Thread: the
/// stream's.
class time_mark {
 public:
  virtual ~time_mark() = default;

  /// Records it after all earlier calls of its stream. Requires: not called within `stream::capture_or_launch`.
  virtual void record() = 0;

  /// Returns whether the stream has reached it.
  virtual bool is_over() const = 0;

  /// Returns the nanoseconds from `earlier`, of the same stream, to this one, with a precision of about a microsecond.
  /// Requires: both are over.
  virtual std::int64_t ns_since(const time_mark& earlier) const = 0;
};

/// The first NaN or Inf, as returned by `stream::find_non_finite`.
struct non_finite {
  std::uint64_t place = 0;  ///< its index; if no number is NaN or Inf, the count of all
  float number = 0;
};

/// A captured sequence of calls: a CUDA graph. See `stream::capture_or_launch`.
class graph {
 public:
  virtual ~graph() = default;
};

class device;
class table_gradient;

/// Runs kernels and copies in the order of the calls. Thread: one at a time.
class stream {
 public:
  virtual ~stream() = default;

  /// Returns the device that the stream belongs to.
  virtual kernels::device& device() const = 0;
  /// CUDA's handle, a cudaStream_t; null on the processor.
  virtual void* native() const { return nullptr; }

  /// Blocks until all earlier calls have finished.
  virtual void synchronize() = 0;

  /// Returns an event after all earlier calls.
  virtual std::unique_ptr<event> record() = 0;

  /// Returns a mark for this stream, not recorded yet. Null on the processor, whose work the callers can time.
  virtual std::unique_ptr<time_mark> make_time_mark() { return nullptr; }

  /// Makes later calls wait for `before`, recorded by any stream of any device of this backend. Does not block the
  /// host.
  virtual void wait(const event& before) = 0;

  /// Runs the calls that `enqueue` makes on this stream. The first call runs `enqueue`; the second captures its calls
  /// as a graph; from then on that is launched without calling `enqueue`. During step capture (`step_graphs`), always
  /// calls it. Requires: `enqueue` calls only kernels and copies of this stream, always with the same arguments.
  virtual void capture_or_launch(std::unique_ptr<graph>& captured, const std::function<void()>& enqueue) = 0;

  /// Calls `part(i)` for each i below `count`; the parts enqueue kernels that write to disjoint memory. Calls
  /// `done(i)`, in order, when parts 0 to i are enqueued. On the processor idle threads run some of the parts, if it
  /// pays: `operations` is the number of multiplications in all.
  virtual void side_by_side(std::size_t count, std::size_t operations, const std::function<void(std::size_t)>& part,
                            const std::function<void(std::size_t)>& done) {
    (void)operations;
    for (std::size_t i = 0; i < count; ++i) {
      part(i);
      done(i);
    }
  }

  /// Copies `bytes` bytes: host to device, device to host, device to device. `host` should be staging memory. Requires:
  /// the memory stays valid, and `host` unchanged, until the stream has passed the copy.
  virtual void upload(const void* host, void* to, std::size_t bytes) = 0;
  virtual void download(const void* from, void* host, std::size_t bytes) = 0;
  virtual void copy(const void* from, void* to, std::size_t bytes) = 0;

#define TROUPE_KERNEL = 0
#include "kernels/stream_kernels.inc"
};

/// The size of a CUDA stream's workspace for matrix products, in bytes of device memory.
inline constexpr std::size_t matmul_workspace_bytes = std::size_t{32} << 20;

/// The most vectors that `pairwise_dots` accepts on a CUDA device.
inline constexpr std::size_t interaction_vectors_max = 256;

/// The most indices of one table in one optimizer step, and of all tables of a `table_gradient`; they are counted in 32
/// bits.
inline constexpr std::uint64_t step_indices_max = (std::uint64_t{1} << 31) - 1;

/// The most tables of a `table_gradient`.
inline constexpr std::size_t gradient_tables_max = 32;

/// The most steps of a `table_gradient` whose bad row has not been requested.
inline constexpr std::size_t applies_max = 4;

/// One table's part of an optimizer step.
struct table_step {
  update_constants constants;
  void* weights = nullptr;  ///< null: the table does not change
  optimizer_state_view state;
  float scale = 1;
};

/// The gradients of tables with rows of one width in one optimizer step: collects bags, groups them by row, updates the
/// touched rows. Rows are numbered consecutively over all tables, so that a device handles them like those of one
/// table. Uses no atomics: a row is summed in the order of `update_rows` (optimizer.hpp). Thread: one at a time.
class table_gradient {
 public:
  virtual ~table_gradient() = default;

  /// Starts a step without tables.
  virtual void clear() = 0;

  /// Adds a table of `row_count` rows and returns its number, from 0. Requires: before `group`; at most
  /// `gradient_tables_max` tables.
  virtual std::size_t add_table(std::int64_t row_count) = 0;

  /// Adds the gradient `grad` [bags, dim] of rows of a table pooled by `mode` (sum or mean). Bags without offsets hold
  /// one index each. Requires: calls in rank order for each table; at most `step_indices_max` indices a step; the bags
  /// stay valid until the stream has passed `group`, the gradient until it has passed `apply` (on the processor, both
  /// until `apply`).
  virtual void add(std::size_t table, pooling mode, const bags_view& bags, const float* grad,
                   std::size_t grad_stride) = 0;

  /// Groups the added gradients by row (on the processor, the calls that need them grouped do it).
  virtual void group() = 0;

  /// Returns, by table, the squared norms (`row_squared_norms`) of the touched rows' gradients times `scale`, rows
  /// ascending, in host memory that stays valid until the next call. Blocks until the stream has passed.
  virtual std::span<const std::span<const double>> norms_by_table(std::size_t dim, float scale) = 0;

  /// Calls `update_rows` for each table with its grouped gradient; `steps` by table.
  virtual void apply(std::size_t dim, row_dtype type, std::span<const table_step> steps, bool every_row) = 0;

  /// Returns the first row, counted over all tables, whose gradient was NaN or Inf in the first `apply` not yet
  /// queried; or -1. Requires: one call after each `apply`, once the stream has passed it, and before `applies_max`
  /// more (on the processor, before the next); then the added memory may be freed.
  virtual std::int64_t bad_row() = 0;

  // The same for a single table.
  void clear(std::int64_t row_count) {
    clear();
    add_table(row_count);
  }
  void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) {
    add(0, mode, bags, grad, grad_stride);
  }
  std::span<const double> squared_norms(std::size_t dim, float scale) { return norms_by_table(dim, scale)[0]; }
  void apply(const update_constants& c, std::size_t dim, table_view table, optimizer_state_view state, float scale,
             bool every_row) {
    const table_step one{c, table.data, state, scale};
    apply(dim, table.type, {&one, 1}, every_row);
  }
};

/// Captures a step's calls on all streams of a device as one graph, which is launched at once: the host enqueues one
/// launch instead of all calls. The next step may have other calls and arguments.
///
/// Calls have their usual effect, only later. A call that cannot be part of a graph, such as waiting for a stream, or
/// for an event of the current step, launches what has been captured so far; from then on calls run directly, until the
/// next `begin`. Thread: any.
class step_graphs {
 public:
  virtual ~step_graphs() = default;

  /// Makes threads that call the device take turns from now on, which capturing needs. Requires: no other thread calls
  /// the device's streams meanwhile.
  virtual void turn_on() = 0;

  /// Launches the graph of the current step, if there is one, and begins the next. Requires: `turn_on`.
  virtual void begin() = 0;

  /// Launches the graph of the current step. Later calls run directly.
  virtual void end() = 0;

  /// Returns whether a step is being captured.
  virtual bool are_captured() const = 0;
};

/// Memory of a device, in bytes.
struct memory_use {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};

/// Lives until the process ends. Thread: any.
class device {
 public:
  virtual ~device() = default;

  /// Returns its number among the CUDA devices; -1 for the processor.
  virtual int number() const = 0;
  bool is_host() const { return number() < 0; }

  /// Returns the card's UUID, unique over all hosts; empty for the processor.
  virtual std::string uuid() const = 0;

  /// Returns free and total memory. For the processor: unused pages of the whole host; model/memory.hpp computes how
  /// much a process may use.
  virtual memory_use memory() const = 0;

  /// Returns uninitialized device memory, from a pool that keeps freed memory for later calls of similar size. If there
  /// is too little, the error reports how much is free. Requires: it is released after every stream that used it has
  /// passed.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Returns host memory for fast copies to and from the device (pinned); on the processor, any memory.
  virtual std::shared_ptr<std::byte> allocate_staging(std::size_t bytes) = 0;

  /// Returns a new stream whose matrix products round to `precision`; the processor only supports f32.
  virtual std::unique_ptr<stream> make_stream(matmul_precision precision = matmul_precision::f32,
                                              stream_priority priority = stream_priority::usual) = 0;

  /// Returns the object that captures its steps; null on the processor, whose calls run at once.
  virtual step_graphs* graphs() { return nullptr; }
};

/// Returns the processor as a device.
device& host_device();

/// Returns the processor's stream, which has no state. Thread: any.
stream& host_stream();

}  // namespace troupe::kernels
