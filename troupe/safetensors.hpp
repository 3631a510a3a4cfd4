// Reads and writes named tensors in safetensors files (https://github.com/huggingface/safetensors), which PyTorch also
// reads and writes.

#pragma once

#include <string>
#include <vector>

#include "troupe/state.hpp"

namespace troupe {

/// Reads all tensors of a file, in the order of their names. Throws `error` if the file is not valid, or has tensors of
/// types other than float32, float64 and int64, or of more than `shape::dimensions_max` dimensions.
named_tensors load_safetensors(const std::string& path);

/// Reads the tensors `names` of a file, in that order. Others may have any type. Also throws `error` if one is missing.
named_tensors load_safetensors(const std::string& path, const std::vector<std::string>& names);

/// Writes a file, or overwrites it. Throws `error` if two tensors have one name, or the file cannot be written.
void save_safetensors(const std::string& path, const named_tensors& tensors);

}  // namespace troupe
