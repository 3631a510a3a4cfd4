// Writes safetensors files (https://github.com/huggingface/safetensors): 8 bytes little-endian header length, a JSON
// header that blanks fill up to a multiple of 8 bytes, and the tensors' little-endian bytes without holes. Wider types
// come first, then the order of the names, so that every tensor begins at a multiple of its number's size.

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

/// A tensor without its bytes.
struct tensor_declaration {
  std::string name;
  tensor_type type = tensor_type::f32;
  std::vector<std::uint64_t> shape;

  bool operator==(const tensor_declaration&) const = default;
};

/// Bytes of a tensor; nullopt if they do not fit in 64 bits.
std::optional<std::uint64_t> tensor_bytes(tensor_type type, const std::vector<std::uint64_t>& shape);

/// A tensor with its bytes, which live elsewhere.
struct tensor_view {
  tensor_declaration what;
  std::span<const std::byte> bytes;
  /// Copies some of `bytes` to where the processor can read them, until the next call. Empty: it can read them all.
  std::function<std::span<const std::byte>(std::span<const std::byte> some)> fetch = nullptr;
};

/// Text by name.
using tensor_metadata = std::map<std::string, std::string>;

/// A file whose tensors come piece by piece, so that they need not fit into memory. For one thread at a time. Faults
/// are of kind run and name the file.
class safetensors_writer {
 public:
  /// Creates `path` and writes the header. Refuses names given twice, shapes beyond 64 bits, and headers beyond what
  /// readers take. Metadata that are not UTF-8 get U+FFFD for what is not.
  static result<safetensors_writer> create(const std::string& path, std::vector<tensor_declaration> tensors,
                                           const tensor_metadata& metadata);

  /// The tensors in the order in which their bytes have to come.
  const std::vector<tensor_declaration>& tensors() const { return tensors_; }

  /// The next bytes, which may end anywhere within a tensor.
  result<void> append(std::span<const std::byte> bytes) { return file_.append(bytes); }

  /// Closes the file; a fault if there were more or fewer bytes than declared.
  result<written_file> finish() { return file_.close(); }

 private:
  safetensors_writer(output_file&& file, std::vector<tensor_declaration>&& tensors)
      : file_(std::move(file)), tensors_(std::move(tensors)) {}

  output_file file_;
  std::vector<tensor_declaration> tensors_;
};

/// Writes a whole file of tensors that are in memory, without a copy of them; what is fetched, is so by 64 MiB at most.
result<written_file> write_safetensors(const std::string& path, std::span<const tensor_view> tensors,
                                       const tensor_metadata& metadata);

}  // namespace troupe::model
