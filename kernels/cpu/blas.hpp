// Matrix products by OpenBLAS, on the calling thread.
//
// OpenBLAS chooses its kernels by the processor's model when it is loaded, and takes slow ones (SSE3) for a model newer
// than itself. So it is loaded here, and told to take the kernels that fit the instruction set that Highway has found;
// that also makes the bits of a product those of the instruction set, whatever the model. Whoever sets
// OPENBLAS_CORETYPE in the environment decides instead.

#pragma once

#include <cstddef>

namespace troupe::kernels {

/// How a factor lies in memory: as it stands, or transposed.
enum class factor_form : bool { plain, transposed };

/// c [m, n] = a b + beta c, all row-major without gaps; a is [m, k], or [k, m] if transposed, b [k, n], or [n, k] if
/// transposed. A beta of 0 overwrites c whatever it holds. May be called from any thread. Throws std::runtime_error
/// with the loader's words if OpenBLAS is not to be had.
void blas_product(factor_form a_form, factor_form b_form, std::size_t m, std::size_t n, std::size_t k, const float* a,
                  const float* b, float beta, float* c);

/// The kernels that OpenBLAS uses, by its own name for them; empty if it is not to be had.
const char* blas_kernels();

}  // namespace troupe::kernels
