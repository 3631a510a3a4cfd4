// Matrix products by OpenBLAS, on the calling thread.
//
// OpenBLAS chooses its kernels by the processor's model when it is loaded, and uses slow ones (SSE3) for models newer
// than itself. So it is loaded here and set to the kernels of the instruction set that Highway found. The bits of
// a product then depend on the instruction set only. OPENBLAS_CORETYPE in the environment overrides this.

#pragma once

#include <cstddef>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// c [m, n] = a b + beta c, all row-major without gaps. a is [m, k], or [k, m] if transposed; b is [k, n], or [n, k] if
/// transposed. A beta of 0 overwrites c, even NaN. Thread: any. Throws std::runtime_error with the loader's error if
/// OpenBLAS cannot be loaded; no_product_memory if there is no room for its buffer.
void blas_product(factor_form a_form, factor_form b_form, std::size_t m, std::size_t n, std::size_t k, const float* a,
                  const float* b, float beta, float* c);

/// Reserves OpenBLAS's memory for up to `count` concurrent products, as long as `room` bytes of address space stay
/// free. Returns how many products may run at once; further ones wait. 0: none fits.
std::size_t reserve_products(std::size_t count, std::size_t space);

/// Returns OpenBLAS's name for the kernels that it uses; empty if it cannot be loaded.
const char* blas_kernels();

/// Returns OpenBLAS's version and build, such as "OpenBLAS 0.3.21 DYNAMIC_ARCH"; empty if it cannot be loaded.
const char* blas_version();

}  // namespace troupe::kernels
