// The devices that the actors of a run compute on, and numbers on such a device as messages carry them.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "model/result.hpp"
#include "protocol/tensor.hpp"

namespace troupe {

/// Who computes on which CUDA device; the others on the processor.
struct compute_devices {
  /// The devices' numbers: a rank has the one at its place, counted round.
  std::vector<int> numbers;
  bool trainers = false;    ///< trainers compute on them
  bool servers = false;     ///< servers keep their tables on them
  bool elsewhere = false;   ///< in other processes, so that this one does not open them
  bool by_default = false;  ///< nobody has asked for CUDA
  std::string unusable;     ///< nobody has asked for CUDA, and there may be devices, but this stands against them

  /// A rank's device, opened when it is first asked for. Throw `kernels::device_error`.
  kernels::device& of_trainer(std::uint32_t rank) const { return pick(trainers, rank); }
  kernels::device& of_server(std::uint32_t rank) const { return pick(servers, rank); }

  /// The device at a place of `numbers`, likewise.
  kernels::device& at(std::size_t place) const;

 private:
  kernels::device& pick(bool on_them, std::uint32_t rank) const {
    return on_them ? at(rank % numbers.size()) : kernels::host_device();
  }
};

/// Where ranks are that compute on CUDA devices, for people: " on CUDA devices 0, 2".
std::string places_of(const compute_devices& devices, std::span<const std::uint32_t> ranks);

/// Who computes on what, for people: a line; empty if all do on the processor.
std::string describe(const compute_devices& devices, std::uint32_t trainers, std::uint32_t servers);

/// What a user says of devices.
struct device_wish {
  enum class kind : std::uint8_t { automatic, cpu, cuda };
  kind trainers = kind::cpu;
  kind servers = kind::automatic;  ///< automatic: as the trainers
  std::vector<int> numbers;        ///< empty: all
};

/// Looks at the machine, and opens no device. Faults, of kind input: what is missing.
result<compute_devices> choose_devices(const device_wish& wish);

/// Memory of a device that a stream writes.
class device_block final : public device_memory {
 public:
  /// `written`: the place in a stream from which on it is.
  /// `lost`: true from when on what is written may be anything; may be null.
  device_block(kernels::device& where, std::shared_ptr<const void> memory, std::unique_ptr<kernels::event> written,
               std::shared_ptr<const std::atomic<bool>> lost)
      : where_(where), memory_(std::move(memory)), written_(std::move(written)), lost_(std::move(lost)) {}

  kernels::device& where() const { return where_; }
  /// What reads the memory on a stream waits for this.
  const kernels::event& written() const { return *written_; }
  /// To be asked when a stream that has waited for it has passed. May be called from any thread.
  bool is_lost() const { return lost_ && *lost_; }
  void read(const std::byte* from, std::size_t size, std::byte* to) const override;

 private:
  kernels::device& where_;
  std::shared_ptr<const void> memory_;
  std::unique_ptr<kernels::event> written_;
  std::shared_ptr<const std::atomic<bool>> lost_;
};

/// The numbers [rows, cols] at `numbers` on the device of `on`, kept alive by `memory`, which `on` has been asked to
/// write. They stay as they are as long as anybody has the tensor and his stream has not passed.
tensor on_device(kernels::stream& on, std::uint64_t rows, std::uint64_t cols, std::shared_ptr<const void> memory,
                 const float* numbers, std::shared_ptr<const std::atomic<bool>> lost = nullptr);

/// The device's memory that a blob is in; null: the host's.
inline const device_block* block_of(const blob& bytes) { return static_cast<const device_block*>(bytes.device()); }

}  // namespace troupe
