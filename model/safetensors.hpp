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

/// An open file whose header has been checked. Tensors are read one at a time, when asked for; nothing that the file
/// says leads to more memory than the file is long. All faults name the file. The functions that read may be called
/// from any thread.
class safetensors_file {
 public:
  static result<safetensors_file> open(const std::string& path);

  /// The same of a file that is open already. Faults are of kind input where its bytes are wrong.
  static result<safetensors_file> open(input_file&& opened);

  /// The path, fit for a message.
  const std::string& name() const { return file_.name(); }
  const safetensors_header& header() const { return header_; }

  /// The tensor's place and shape; null if there is none of that name.
  const tensor_entry* find(std::string_view name) const;

  /// All values of a tensor of type F32 or F64, rounded to float.
  result<std::vector<float>> read_floats(std::string_view name) const;

  /// All values of a tensor of type F32 or F64.
  result<std::vector<double>> read_doubles(std::string_view name) const;

  /// All values of a tensor of type I64.
  result<std::vector<std::int64_t>> read_integers(std::string_view name) const;

  /// A tensor's bytes, whatever its type.
  result<std::vector<std::byte>> read_bytes(std::string_view name) const;

  /// Fills `to` with the bytes of a tensor of this file from its byte `offset` on; the caller stays within the tensor.
  result<void> read_range(const tensor_entry& entry, std::uint64_t offset, std::span<std::byte> to) const;

 private:
  explicit safetensors_file(input_file&& file) : file_(std::move(file)) {}

  result<const tensor_entry*> known(std::string_view name) const;
  template <class T>
  result<std::vector<T>> read_as(const tensor_entry& entry) const;
  template <class To>
  result<std::vector<To>> read_reals(std::string_view name) const;

  input_file file_;
  /// Where the tensors' bytes begin.
  std::uint64_t data_begin_ = 0;
  safetensors_header header_;
};

}  // namespace troupe::model
