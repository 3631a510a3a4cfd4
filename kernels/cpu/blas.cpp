#include "kernels/cpu/blas.hpp"

#include <cblas.h>
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "base/host_memory.hpp"
#include "hwy/highway.h"
#include "kernels/cpu/product_buffers.hpp"

namespace troupe::kernels {
namespace {

/// OpenBLAS's name for the kernels of this processor's instruction set; null if OpenBLAS chooses.
const char* kernels_for_this_processor() {
#if HWY_ARCH_X86
  if ((hwy::SupportedTargets() & HWY_AVX3) != 0) return "SkylakeX";
  if ((hwy::SupportedTargets() & HWY_AVX2) != 0) return "Haswell";
#endif
  return nullptr;
}

/// Set before main: setenv is safe only while there are no other threads.
[[maybe_unused]] const bool is_set_up = [] {
  if (const char* kernels = kernels_for_this_processor()) setenv("OPENBLAS_CORETYPE", kernels, 0);
  // Actors run one per thread: BLAS threads would compete with them for cores.
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  return true;
}();

struct library {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&openblas_get_corename) corename = nullptr;
  decltype(&openblas_get_config) config = nullptr;
  void* (*take_buffer)(int) = nullptr;
  void (*give_buffer)(void*) = nullptr;
  std::string error;

  library() {
    void* handle = dlopen(TROUPE_OPENBLAS, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) {
      sgemm = reinterpret_cast<decltype(sgemm)>(dlsym(handle, "cblas_sgemm"));
      corename = reinterpret_cast<decltype(corename)>(dlsym(handle, "openblas_get_corename"));
      config = reinterpret_cast<decltype(config)>(dlsym(handle, "openblas_get_config"));
      take_buffer = reinterpret_cast<decltype(take_buffer)>(dlsym(handle, "blas_memory_alloc"));
      give_buffer = reinterpret_cast<decltype(give_buffer)>(dlsym(handle, "blas_memory_free"));
    }
    if (sgemm == nullptr || corename == nullptr || config == nullptr || take_buffer == nullptr ||
        give_buffer == nullptr) {
      const char* text = dlerror();
      error = std::string("OpenBLAS could not be loaded: ") + (text != nullptr ? text : "unknown error");
    }
  }
};

/// OpenBLAS, loaded on first use, since that takes half of a short command's time, and never unloaded.
const library& openblas() {
  static const auto* const one = new library;
  return *one;
}

product_buffers& buffers() {
  static auto* const all = new product_buffers(openblas().take_buffer, openblas().give_buffer, has_address_space);
  return *all;  // used until the process ends
}

}  // namespace

std::size_t reserve_products(std::size_t count, std::size_t room) {
  return openblas().error.empty() ? buffers().reserve(count, room) : count;
}

void blas_product(factor_form a_form, factor_form b_form, std::size_t m, std::size_t n, std::size_t k, const float* a,
                  const float* b, float beta, float* c) {
  if (!openblas().error.empty()) throw std::runtime_error(openblas().error);
  const product_buffers::use buffer(buffers());
  const auto size = [](std::size_t x) { return static_cast<blasint>(x); };
  const auto form = [](factor_form f) { return f == factor_form::plain ? CblasNoTrans : CblasTrans; };
  openblas().sgemm(CblasRowMajor, form(a_form), form(b_form), size(m), size(n), size(k), 1.0F, a,
                   size(a_form == factor_form::plain ? k : m), b, size(b_form == factor_form::plain ? n : k), beta, c,
                   size(n));
}

const char* blas_kernels() { return openblas().error.empty() ? openblas().corename() : ""; }

const char* blas_version() { return openblas().error.empty() ? openblas().config() : ""; }

}  // namespace troupe::kernels
