#include "actors/weights.hpp"

#include <fmt/format.h>

namespace troupe {

namespace {

kernels::row_dtype row_dtype_of(dtype type) {
  if (type == dtype::f16) return kernels::row_dtype::f16;
  return type == dtype::bf16 ? kernels::row_dtype::bf16 : kernels::row_dtype::f32;
}

}  // namespace

dtype dtype_of(kernels::row_dtype type) {
  constexpr dtype types[] = {dtype::f32, dtype::f16, dtype::bf16};
  return types[static_cast<std::size_t>(type)];
}

tensor merge_shards(const std::vector<tensor>& shards, std::uint64_t rows, std::uint64_t dim) {
  tensor_buffer merged(rows, dim);
  for (std::uint64_t row = 0; row < rows; ++row) {
    const tensor& shard = shards[row % shards.size()];
    const std::byte* from = shard.bytes.data() + row / shards.size() * dim * size_of(shard.type);
    kernels::decode({from, row_dtype_of(shard.type)}, dim, merged.data() + row * dim);
  }
  return std::move(merged).freeze();
}

std::string weights_digest(const std::vector<std::vector<tensor>>& row_digests, const tensor& dense) {
  streamed_digest digest;
  const auto add = [&digest](std::uint64_t part) {
    digest.add(reinterpret_cast<const std::byte*>(&part), sizeof part);
  };
  for (const auto& shards : row_digests) {
    std::uint64_t rows = 0;
    for (const tensor& shard : shards) rows += shard.rows;
    for (std::uint64_t row = 0; row < rows; ++row)
      add(shards[row % shards.size()].as<std::uint64_t>()[row / shards.size()]);
  }
  add(digest_of(dense.bytes.data(), dense.bytes.size()));
  return fmt::format("{:016x}", digest.value());
}

}  // namespace troupe
