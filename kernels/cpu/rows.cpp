// Stored rows to float32 and back, by vectors. See rows.hpp.

#include "kernels/rows.hpp"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"
#include "kernels/cpu/row_numbers-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

void decode_all(const_table_view table, std::size_t count, float* out) {
  with_numbers(table, [&](const auto* from) HWY_ATTR {
    for_each_block<1>(
        count, [&](auto d, auto, std::size_t at) HWY_ATTR { hn::StoreU(load_numbers(d, from + at), d, out + at); });
  });
}

void encode_all(std::size_t count, const float* x, table_view table) {
  with_numbers(table, [&](auto* to) HWY_ATTR {
    for_each_block<1>(count,
                      [&](auto d, auto, std::size_t at) HWY_ATTR { store_numbers(hn::LoadU(d, x + at), d, to + at); });
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(decode_all);
HWY_EXPORT(encode_all);

void decode(const_table_view from, std::size_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decode_all)(from, count, out);
}

void encode(std::size_t count, const float* x, table_view to) { HWY_DYNAMIC_DISPATCH(encode_all)(count, x, to); }

}  // namespace troupe::kernels
#endif  // HWY_ONCE
