// Loaded before a program (LD_PRELOAD), it hides the instruction sets above AVX2 from the kernels. oneDNN has a
// variable of its own for that.

#include <hwy/targets.h>

namespace {

[[maybe_unused]] const bool are_hidden = [] {
  hwy::DisableTargets(HWY_AVX2 - 1);  // better instruction sets have lower bits
  return true;
}();

}  // namespace
