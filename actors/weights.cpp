#include "actors/weights.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe {

tensor merge_shards(const std::vector<tensor>& shards, std::uint64_t rows, std::uint64_t dim) {
  tensor_buffer merged(rows, dim);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const float* from = shards[row % shards.size()].as<float>().data() + row / shards.size() * dim;
    std::copy_n(from, dim, merged.data() + row * dim);
  }
  return std::move(merged).freeze();
}

std::string weights_digest(const std::vector<std::vector<tensor>>& row_digests, const tensor& dense) {
  std::vector<std::uint64_t> digests;
  for (const auto& shards : row_digests) {
    std::uint64_t rows = 0;
    for (const tensor& shard : shards) rows += shard.rows;
    for (std::uint64_t row = 0; row < rows; ++row)
      digests.push_back(shards[row % shards.size()].as<std::uint64_t>()[row / shards.size()]);
  }
  digests.push_back(digest_of(dense.bytes.data(), dense.bytes.size()));
  return fmt::format(
      "{:016x}", digest_of(reinterpret_cast<const std::byte*>(digests.data()), digests.size() * sizeof(std::uint64_t)));
}

}  // namespace troupe
