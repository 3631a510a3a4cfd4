// Reads TensorBoard's event files, independent of the program's writer: written after the formats' descriptions, with
// checksums taken bit by bit and protocol buffers read field by field.

#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::apps {

struct event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string file_version;
  /// Scalars by tag.
  std::map<std::string, float> scalars;
  /// Status of a session log; 0 for other events.
  std::uint64_t session_status = 0;
};

class event_file_reader {
 public:
  explicit event_file_reader(std::string_view bytes) : rest_(bytes) {}

  /// Returns all events. Fails the test on invalid contents.
  std::vector<event> read() {
    std::vector<event> events;
    while (!rest_.empty() && !failed_) {
      const std::string_view length_bytes = take(rest_, 8);
      const auto length = number<std::uint64_t>(length_bytes);
      expect_crc(length_bytes, take(rest_, 4));
      const std::string_view data = take(rest_, length);
      expect_crc(data, take(rest_, 4));
      if (!failed_) events.push_back(read_event(data));
    }
    return events;
  }

 private:
  struct field {
    std::uint64_t number = 0;
    std::uint64_t value = 0;   // of numbers; the bit pattern of floating-point ones
    std::string_view content;  // of strings and messages
  };

  void fail(const char* why) {
    if (!failed_) ADD_FAILURE() << why;
    failed_ = true;
  }

  std::string_view take(std::string_view& from, std::uint64_t count) {
    if (count > from.size()) {
      fail("the file breaks off");
      count = 0;
    }
    const std::string_view taken = from.substr(0, count);
    from.remove_prefix(count);
    return taken;
  }

  template <class T>
  static T number(std::string_view bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(T)));
    return value;
  }

  void expect_crc(std::string_view bytes, std::string_view stored) {
    std::uint32_t crc = 0xffffffff;
    for (const char c : bytes) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78U : crc >> 1;
    }
    crc = ~crc;
    const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
    if (number<std::uint32_t>(stored) != masked) fail("a checksum is wrong");
  }

  std::uint64_t varint(std::string_view& from) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !failed_; shift += 7) {
      const auto byte = number<std::uint8_t>(take(from, 1));
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    fail("a number without end");
    return 0;
  }

  std::vector<field> fields(std::string_view message) {
    std::vector<field> all;
    while (!message.empty() && !failed_) {
      const std::uint64_t key = varint(message);
      field one{key >> 3, 0, {}};
      switch (key & 7) {
        case 0:
          one.value = varint(message);
          break;
        case 1:
          one.value = number<std::uint64_t>(take(message, 8));
          break;
        case 2:
          one.content = take(message, varint(message));
          break;
        case 5:
          one.value = number<std::uint32_t>(take(message, 4));
          break;
        default:
          fail("an unknown wire type");
      }
      all.push_back(one);
    }
    return all;
  }

  event read_event(std::string_view data) {
    event made;
    for (const field& one : fields(data)) {
      if (one.number == 1) std::memcpy(&made.wall_time, &one.value, sizeof made.wall_time);
      if (one.number == 2) made.step = one.value;
      if (one.number == 3) made.file_version = one.content;
      if (one.number == 5) read_summary(one.content, made);
      if (one.number == 7) made.session_status = fields(one.content).at(0).value;
    }
    return made;
  }

  void read_summary(std::string_view data, event& to) {
    for (const field& value : fields(data)) {
      std::string tag;
      float scalar = 0;
      for (const field& one : fields(value.content)) {
        if (one.number == 1) tag = one.content;
        if (one.number == 2) std::memcpy(&scalar, &one.value, sizeof scalar);
      }
      EXPECT_TRUE(to.scalars.emplace(tag, scalar).second) << tag << " comes twice";
    }
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace troupe::apps
