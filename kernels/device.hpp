// A device that computes: the processor, or a CUDA device. Its memory, its streams, and the kernels of this folder as
// what a stream does on that memory, one after the other.
//
// The processor is a device too, whose memory is the host's and whose stream has done a thing when the call returns:
// what is written once for a device runs on both. The kernels and their meaning are listed in stream_kernels.inc. A
// CUDA device gives sums of its own order in matrix products, norms and losses, and its own last bits in exp and log;
// the sums of bags, rows and ranks have the same order on every device.
//
// Everything here throws `device_error` if the device refuses or fails; what failed earlier on a stream shows at
// `synchronize` at the latest. Pointers are to the device's memory unless they are said to be the host's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/embedding_bag.hpp"
#include "kernels/interaction.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rows.hpp"

namespace troupe::kernels {

/// A call to a device failed: the call, what it answered, and what to try.
class device_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the factors of a matrix product are rounded to. Sums are always kept in float32.
enum class matmul_precision : std::uint8_t { f32, tf32, bf16 };

/// Which of a device's streams goes first where several have work. The processor has no use for it.
enum class stream_priority : std::uint8_t { usual, high };

/// What follows a linear layer in the same pass.
enum class activation : std::uint8_t { none, relu };

/// A place in a stream's order, for other streams and for the host.
class event {
 public:
  virtual ~event() = default;

  /// Whether the stream has come there. May be called from any thread.
  virtual bool is_over() const = 0;

  /// Waits until it has. May be called from any thread.
  virtual void wait() const = 0;
};

/// The first number that is NaN or Inf, as `stream::find_non_finite` finds it.
struct non_finite {
  std::uint64_t place = 0;  ///< the count of all numbers if there is none
  float number = 0;
};

/// Calls that are made again and again with the same arguments: a CUDA graph. See `stream::capture_or_launch`.
class graph {
 public:
  virtual ~graph() = default;
};

class device;
class table_gradient;

/// Kernels and copies, done in the order of the calls. One thread at a time.
class stream {
 public:
  virtual ~stream() = default;

  /// The device that it is one of.
  virtual kernels::device& device() const = 0;

  /// Waits until everything has been done.
  virtual void synchronize() = 0;

  /// The place after everything that has been asked for so far.
  virtual std::unique_ptr<event> record() = 0;

  /// What is asked for from here on waits for `before`, which any stream of any device of this backend has recorded.
  virtual void wait(const event& before) = 0;

  /// Does the calls of `enqueue`, which asks this stream only for kernels and copies, with the same arguments each
  /// time. The second time they are captured as a graph, which is launched from then on without calling `enqueue`.
  virtual void capture_or_launch(std::unique_ptr<graph>& captured, const std::function<void()>& enqueue) = 0;

  /// Copies; `host` should be staging memory and must stay as it is until the stream has passed.
  virtual void upload(const void* host, void* to, std::size_t bytes) = 0;
  virtual void download(const void* from, void* host, std::size_t bytes) = 0;
  virtual void copy(const void* from, void* to, std::size_t bytes) = 0;

#define TROUPE_KERNEL = 0
#include "kernels/stream_kernels.inc"
};

/// What a stream of a CUDA device takes of its memory for matrix products.
inline constexpr std::size_t matmul_workspace_bytes = std::size_t{32} << 20;

/// Most vectors whose dots a CUDA device takes.
inline constexpr std::size_t interaction_vectors_max = 256;

/// Most indices of one table in one optimizer step: they are counted in 32 bits.
inline constexpr std::uint64_t step_indices_max = (std::uint64_t{1} << 31) - 1;

/// The gradient of one table in one optimizer step: collected from bags, regrouped by row, applied to touched rows.
/// Without atomics: the order of a row's sum is that of `update_rows` (optimizer.hpp). Not thread-safe.
class table_gradient {
 public:
  virtual ~table_gradient() = default;

  /// Starts anew for a table of `row_count` rows.
  virtual void clear(std::int64_t row_count) = 0;

  /// Adds the next source, in rank order: the gradient `grad` [bags, dim] of rows pooled by `mode` (sum or mean). Bags
  /// without offsets stand for one bag for each index. The bags must stay until the stream has passed `group`, the
  /// gradient until it has passed `apply`; on the processor, both until then. In one step there are at most
  /// `step_indices_max` indices.
  virtual void add(pooling mode, const bags_view& bags, const float* grad, std::size_t grad_stride) = 0;

  /// Regroups what has been added.
  virtual void group() = 0;

  /// The squared norms, of `row_squared_norms`, of the touched rows' gradients times `scale`, rows ascending. In the
  /// host's memory until the next call; waits for the stream.
  virtual std::span<const double> squared_norms(std::size_t dim, float scale) = 0;

  /// `update_rows` with what has been grouped.
  virtual void apply(const update_constants& c, std::size_t dim, table_view table, optimizer_state_view state,
                     float scale, bool every_row) = 0;

  /// The first row whose gradient was NaN or Inf when it was last applied, or -1; waits for the stream, so that
  /// everything that was added may go. To be called once after each `apply`.
  virtual std::int64_t bad_row() = 0;
};

/// Bytes of a device's memory.
struct memory_use {
  std::uint64_t free = 0;
  std::uint64_t total = 0;
};

/// May be used from any thread. Lives until the process ends.
class device {
 public:
  virtual ~device() = default;

  /// Its number among the CUDA devices; -1: the processor.
  virtual int number() const = 0;
  bool is_host() const { return number() < 0; }

  /// Tells this card from all others, on this host and elsewhere. Empty: the processor.
  virtual std::string uuid() const = 0;

  /// The processor: of the whole host, pages that nobody uses. How much a process may take is model/memory.hpp's
  /// matter.
  virtual memory_use memory() const = 0;

  /// Uninitialized memory of the device. It may go when every stream that used it has passed; what goes is kept for the
  /// next who asks for as much. The error of too little memory says how much is free.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Memory of the host that copies to and from the device are fast with: on the processor, any.
  virtual std::shared_ptr<std::byte> allocate_staging(std::size_t bytes) = 0;

  /// Matrix products on it round as `precision` says; the processor knows f32 only.
  virtual std::unique_ptr<stream> make_stream(matmul_precision precision = matmul_precision::f32,
                                              stream_priority priority = stream_priority::usual) = 0;
};

/// The processor as a device.
device& host_device();

/// Its one stream, which has no state: may be used from any thread.
stream& host_stream();

}  // namespace troupe::kernels
