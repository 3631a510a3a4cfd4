#include "troupe/runtime/tensors.hpp"

#include <algorithm>
#include <memory>

namespace troupe::runtime {

std::vector<std::uint64_t> lengths_of(const shape& x) { return {x.begin(), x.end()}; }

msg::tensor column_of(const tensor& x, std::size_t first, std::size_t count) {
  const std::size_t one = size_of(x.type());
  return {x.type(), count, 1, msg::blob(x.owner(), x.owner().get() + first * one, count * one)};
}

std::optional<tensor> tensor_of(const msg::tensor& column, const std::vector<std::uint64_t>& lengths, bool copied) {
  if (!is_tensor_type(column.type) || column.cols != 1 || !column.consistent()) return {};
  if (lengths.size() > shape::dimensions_max) return {};
  std::size_t all = 1;
  for (const std::uint64_t one : lengths)
    if (__builtin_mul_overflow(all, std::max<std::uint64_t>(one, 1), &all)) return {};
  const shape wanted = shape::of(lengths);
  if (wanted.count() != column.rows) return {};
  const std::byte* const numbers = column.bytes.data();
  if (!copied && column.rows > 0)
    return tensor(wanted, column.type,
                  {std::const_pointer_cast<void>(column.bytes.owner()), const_cast<std::byte*>(numbers)});
  tensor made(wanted, column.type);
  std::copy_n(numbers, column.bytes.size(), made.owner().get());
  return made;
}

}  // namespace troupe::runtime
