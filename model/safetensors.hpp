// Reads safetensors files: 8 bytes little-endian header length, a JSON header, the tensors' little-endian bytes
// (https://github.com/huggingface/safetensors). safetensors_writer.hpp writes them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/input_file.hpp"
#include "model/safetensors_header.hpp"

namespace troupe::model {

/// An open file with a valid header. Reads single tensors. Guarantees: a malicious file cannot make it allocate more
/// than the file's length. All faults name the file. Thread: any, for reading.
class safetensors_file {
 public:
  static result<safetensors_file> open(const std::string& path);

  /// The same for an open file. Faults about its bytes are of kind input.
  static result<safetensors_file> open(input_file&& opened);

  /// Returns the path for messages.
  const std::string& name() const { return file_.name(); }
  const safetensors_header& header() const { return header_; }

  /// Returns the tensor's location and shape; null if there is no tensor of that name.
  const tensor_entry* find(std::string_view name) const;

  /// Reads a tensor of type F32 or F64, rounded to float.
  result<std::vector<float>> read_floats(std::string_view name) const;

  /// Reads a tensor of type F32 or F64.
  result<std::vector<double>> read_doubles(std::string_view name) const;

  /// Reads a tensor of type I64.
  result<std::vector<std::int64_t>> read_integers(std::string_view name) const;

  /// Reads a tensor's bytes, of any type.
  result<std::vector<std::byte>> read_bytes(std::string_view name) const;

  /// Reads bytes of a tensor from its byte `offset` on. Requires: they are within the tensor.
  result<void> read_range(const tensor_entry& entry, std::uint64_t offset, std::span<std::byte> to) const;

 private:
  explicit safetensors_file(input_file&& file) : file_(std::move(file)) {}

  result<const tensor_entry*> known(std::string_view name) const;
  template <class T>
  result<std::vector<T>> read_as(const tensor_entry& entry) const;
  template <class To>
  result<std::vector<To>> read_reals(std::string_view name) const;

  input_file file_;
  /// The offset of the tensors' bytes.
  std::uint64_t data_begin_ = 0;
  safetensors_header header_;
};

}  // namespace troupe::model
