// Makes safetensors files, sound and unsound ones, for tests of their readers.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/model/temporary_file.hpp"

namespace troupe::model {

/// 8 bytes of length, the header, and the data.
inline std::string file_of(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

/// `text` as a JSON string, for text without control characters.
inline std::string json_text(std::string_view text) {
  std::string made(1, '"');
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + '"';
}

/// Tensors by name; the file has them in the names' order.
class tensor_file {
 public:
  template <class T>
  void set(const std::string& name, const std::vector<std::uint64_t>& shape, const std::vector<T>& values) {
    set_typed(name, type_of(T{}), shape, values);
  }

  template <class T>
  void set_typed(const std::string& name, const char* type, const std::vector<std::uint64_t>& shape,
                 const std::vector<T>& values) {
    std::string bytes(values.size() * sizeof(T), '\0');
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    tensors_[name] = {type, shape, bytes};
  }

  void remove(const std::string& name) { tensors_.erase(name); }

  std::string config;

  std::string bytes() const {
    std::string header = fmt::format("{{\"__metadata__\":{{\"config\":{}}}", json_text(config));
    std::string data;
    for (const auto& [name, one] : tensors_) {
      header += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", json_text(name),
                            one.type, fmt::join(one.shape, ","), data.size(), data.size() + one.bytes.size());
      data += one.bytes;
    }
    return file_of(header + "}", data);
  }

 private:
  struct tensor {
    std::string type;
    std::vector<std::uint64_t> shape;
    std::string bytes;
  };

  static const char* type_of(float) { return "F32"; }
  static const char* type_of(double) { return "F64"; }
  static const char* type_of(std::int64_t) { return "I64"; }

  std::map<std::string, tensor> tensors_;
};

}  // namespace troupe::model
