// Writes safetensors files (https://github.com/huggingface/safetensors): 8 bytes little-endian header length, a JSON
// header padded with blanks to a multiple of 8 bytes, and the tensors' little-endian bytes without holes. Wider types
// come first, then the order of names, so that every tensor begins at a multiple of its number's size.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "model/output_file.hpp"
#include "model/safetensors_header.hpp"

namespace troupe::model {

/// A tensor's name, type and shape.
struct tensor_declaration {
  std::string name;
  dtype type = dtype::f32;
  std::vector<std::uint64_t> shape;

  bool operator==(const tensor_declaration&) const = default;
};

/// Returns the bytes of a tensor; null if they do not fit in 64 bits.
std::optional<std::uint64_t> tensor_bytes(dtype type, const std::vector<std::uint64_t>& shape);

/// A tensor with a view of its bytes.
struct tensor_view {
  tensor_declaration what;
  std::span<const std::byte> bytes;
  /// Copies a part of `bytes` to host memory that stays valid until the next call. Null: `bytes` is in host memory.
  std::function<std::span<const std::byte>(std::span<const std::byte> some)> fetch = nullptr;
  std::size_t piece_bytes = std::size_t{64} << 20;  ///< how many bytes are fetched at a time
};

/// Text by name.
using tensor_metadata = std::map<std::string, std::string>;

/// Writes a file in pieces, so that its tensors need not fit into memory. Thread: one at a time. Faults are of kind run
/// and name the file.
class safetensors_writer {
 public:
  /// Creates `path` and writes the header. Refuses repeated names, shapes beyond 64 bits, and headers that are too long
  /// for readers. A byte of metadata that is not UTF-8 becomes the four characters \xff.
  static result<safetensors_writer> create(const std::string& path, std::vector<tensor_declaration> tensors,
                                           const tensor_metadata& metadata);

  /// Returns the tensors in the order in which their bytes must be appended.
  const std::vector<tensor_declaration>& tensors() const { return tensors_; }

  /// Appends bytes, which may end within a tensor.
  result<void> append(std::span<const std::byte> bytes) { return file_.append(bytes); }

  /// Closes the file. Fault: more or fewer bytes than declared were appended.
  result<written_file> finish() { return file_.close(); }

 private:
  safetensors_writer(output_file&& file, std::vector<tensor_declaration>&& tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  output_file file_;
  std::vector<tensor_declaration> tensors_;
};

/// Writes a whole file of tensors in memory, without copying them, except for the copies made by `fetch`.
result<written_file> write_safetensors(const std::string& path, std::span<const tensor_view> tensors,
                                       const tensor_metadata& metadata);

}  // namespace troupe::model
