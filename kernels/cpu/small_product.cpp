// Products of tiny matrices: sums up to four rows by two vectors of the result in registers at a time.

#include "kernels/cpu/small_product.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/small_product.cpp"
#include "hwy/foreach_target.h"  // must precede the next includes

#include "hwy/highway.h"
#include "kernels/cpu/blocks-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

/// Computes Rows rows of one block of columns: c = start + a b, summed over k in order. `start` is one row, or null
/// for zeros.
template <std::size_t Rows, class D, std::size_t Vectors>
HWY_INLINE void product_block(D d, vectors<Vectors>, std::size_t depth, left_factor a, const float* b,
                              std::size_t columns, const float* start, float* c) {
  const std::size_t lanes = hn::Lanes(d);
  hn::Vec<D> acc[Rows][Vectors];
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t v = 0; v < Vectors; ++v) acc[r][v] = start ? hn::LoadU(d, start + v * lanes) : hn::Zero(d);
  for (std::size_t k = 0; k < depth; ++k) {
    for (std::size_t r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a.data[r * a.row_stride + k * a.k_stride]);
      for (std::size_t v = 0; v < Vectors; ++v)
        acc[r][v] = hn::MulAdd(factor, hn::LoadU(d, b + k * columns + v * lanes), acc[r][v]);
    }
  }
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t v = 0; v < Vectors; ++v) hn::StoreU(acc[r][v], d, c + r * columns + v * lanes);
}

void multiply(std::size_t rows, std::size_t columns, std::size_t depth, left_factor a, const float* b,
              const float* start, float* c) {
  for_each_block<2>(columns, [&](auto d, auto count, std::size_t at) HWY_ATTR {
    std::size_t r = 0;
    const auto take_rows = [&](auto height) HWY_ATTR {
      product_block<height>(d, count, depth, {a.data + r * a.row_stride, a.row_stride, a.k_stride}, b + at, columns,
                            start ? start + at : nullptr, c + r * columns + at);
      r += height;
    };
    while (r + 4 <= rows) take_rows(vectors<4>());
    if (r + 2 <= rows) take_rows(vectors<2>());
    if (r < rows) take_rows(vectors<1>());
  });
}

#if HWY_TARGET == HWY_SCALAR

/// Vectors of one lane cannot be interleaved: no squares.
constexpr std::size_t square_size = 0;
void transpose_square(const float*, std::size_t, float*, std::size_t) {}

#else

constexpr std::size_t square_size = 4;

void transpose_square(const float* in, std::size_t in_stride, float* out, std::size_t out_stride) {
  const hn::CappedTag<float, square_size> d;
  const auto row0 = hn::LoadU(d, in);
  const auto row1 = hn::LoadU(d, in + in_stride);
  const auto row2 = hn::LoadU(d, in + 2 * in_stride);
  const auto row3 = hn::LoadU(d, in + 3 * in_stride);
  const auto low02 = hn::InterleaveLower(d, row0, row2);
  const auto low13 = hn::InterleaveLower(d, row1, row3);
  const auto high02 = hn::InterleaveUpper(d, row0, row2);
  const auto high13 = hn::InterleaveUpper(d, row1, row3);
  hn::StoreU(hn::InterleaveLower(d, low02, low13), d, out);
  hn::StoreU(hn::InterleaveUpper(d, low02, low13), d, out + out_stride);
  hn::StoreU(hn::InterleaveLower(d, high02, high13), d, out + 2 * out_stride);
  hn::StoreU(hn::InterleaveUpper(d, high02, high13), d, out + 3 * out_stride);
}

#endif

/// Transposes squares of 4 x 4, and the rest element by element.
void transpose_matrix(std::size_t rows, std::size_t columns, const float* in, float* out) {
  const std::size_t squared_rows = square_size ? rows / 4 * 4 : 0;
  const std::size_t squared_columns = square_size ? columns / 4 * 4 : 0;
  for (std::size_t r = 0; r < squared_rows; r += 4)
    for (std::size_t c = 0; c < squared_columns; c += 4)
      transpose_square(in + r * columns + c, columns, out + c * rows + r, rows);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = r < squared_rows ? squared_columns : 0; c < columns; ++c)
      out[c * rows + r] = in[r * columns + c];
}

void sum_columns(std::size_t rows, std::size_t columns, const float* x, float* sums) {
  for_each_block<8>(columns, [&](auto d, auto count, std::size_t at) HWY_ATTR {
    hn::Vec<decltype(d)> acc[count];
    for (std::size_t v = 0; v < count; ++v) acc[v] = hn::Zero(d);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t v = 0; v < count; ++v)
        acc[v] = hn::Add(acc[v], hn::LoadU(d, x + r * columns + at + v * hn::Lanes(d)));
    for (std::size_t v = 0; v < count; ++v) hn::StoreU(acc[v], d, sums + at + v * hn::Lanes(d));
  });
}

}  // namespace
}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(multiply);
HWY_EXPORT(transpose_matrix);
HWY_EXPORT(sum_columns);

void small_product(std::size_t rows, std::size_t columns, std::size_t depth, left_factor a, const float* b,
                   const float* start, float* c) {
  HWY_DYNAMIC_DISPATCH(multiply)(rows, columns, depth, a, b, start, c);
}

void transpose(std::size_t rows, std::size_t columns, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(transpose_matrix)(rows, columns, in, out);
}

void column_sums(std::size_t rows, std::size_t columns, const float* x, float* sums) {
  HWY_DYNAMIC_DISPATCH(sum_columns)(rows, columns, x, sums);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
