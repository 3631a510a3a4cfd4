// --tensorboard: an event file for TensorBoard, with each epoch's scalars at its global step.
//
// Records (TFRecord): length as u64, masked CRC-32C of these 8 bytes, the data, masked CRC-32C of the data; all numbers
// little-endian. Data are protocol buffers of type Event (tensorflow/core/util/event.proto):
//   Event {double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log =
//   7} Summary {repeated Value value = 1}, Value {string tag = 1; float simple_value = 2}, SessionLog {enum status = 1}

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <boost/crc.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/epoch_log.hpp"
#include "base/host.hpp"
#include "base/result.hpp"
#include "base/text.hpp"

namespace troupe::apps {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

template <class T>
std::string bytes_of(T number) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(number);
  return {bytes.begin(), bytes.end()};
}

// -- protocol buffers ------------------------------------------------------------------------------------------------

enum wire_type : std::uint64_t { varint_type = 0, fixed64_type = 1, bytes_type = 2, fixed32_type = 5 };

std::string varint(std::uint64_t number) {
  std::string out;
  for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
  return out + static_cast<char>(number);
}

std::string key(std::uint64_t field, wire_type type) { return varint(field << 3 | type); }

std::string field(std::uint64_t number, std::uint64_t value) { return key(number, varint_type) + varint(value); }
std::string field(std::uint64_t number, double value) { return key(number, fixed64_type) + bytes_of(value); }
std::string field(std::uint64_t number, float value) { return key(number, fixed32_type) + bytes_of(value); }
std::string field(std::uint64_t number, std::string_view bytes) {
  return key(number, bytes_type) + varint(bytes.size()) + std::string(bytes);
}

// -- records ---------------------------------------------------------------------------------------------------------

/// Masks a CRC as TFRecord does: a CRC over data that contains CRCs would be weak.
std::uint32_t masked_crc(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
}

std::string record_of(std::string_view data) {
  const std::string length = bytes_of(std::uint64_t{data.size()});
  return length + bytes_of(masked_crc(length)) + std::string(data) + bytes_of(masked_crc(data));
}

std::string wall_time() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return field(1, now.count());
}

/// Returns the start of an event file: its version, and the step from which it replaces the folder's other files.
std::string beginning(std::uint64_t first_step) {
  const std::uint64_t session_start = 1;
  const std::string now = wall_time();
  return record_of(now + field(3, std::string_view("brain.Event:2"))) +
         record_of(now + field(2, first_step) + field(7, field(1, session_start)));
}

class tensorboard : public epoch_log {
 public:
  using epoch_log::epoch_log;

 private:
  std::string record(const actors::epoch_summary& epoch) const override {
    std::string summary;
    const auto add = [&summary](std::string_view tag, std::optional<double> value) {
      if (!value || !std::isfinite(*value)) return;
      summary += field(1, field(1, tag) + field(2, static_cast<float>(*value)));
    };
    add("train/loss", epoch.figures.loss);
    add("train/samples_per_s", samples_per_s(epoch));
    add("test/auc", epoch.figures.auc);
    add("test/accuracy", epoch.figures.accuracy);
    add("test/log_loss", epoch.figures.log_loss);
    add("test/calibration", epoch.figures.calibration);
    add("test/loss", epoch.figures.test_loss);
    add("test/rmse", epoch.figures.rmse);
    for (const auto& one : epoch.figures.own) add("test/" + std::string(one.name()), one.value);
    return record_of(wall_time() + field(2, epoch.step) + field(5, summary));
  }
};

/// Returns events.out.tfevents.SECONDS.HOST.PROCESS, the name that TensorBoard's own writers use.
std::string file_name() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("events.out.tfevents.{}.{}.{}", std::chrono::duration_cast<std::chrono::seconds>(now).count(),
                     host_name_in_files(), ::getpid());
}

}  // namespace

result<std::unique_ptr<epoch_log>> open_tensorboard(const std::string& directory,
                                                    std::optional<std::uint64_t> kept_to) {
  const std::string option = "--tensorboard " + printable_path(directory);
  const auto refuse = [&](const std::string& why) { return bad_input("{}: {}", option, why); };
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) return refuse(failure.message());
  auto file = descriptor::open((std::filesystem::path(directory) / file_name()).string(), O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return refuse(file.error().message);
  return std::make_unique<tensorboard>(option, std::move(*file), beginning(kept_to ? *kept_to + 1 : 0));
}

}  // namespace troupe::apps
