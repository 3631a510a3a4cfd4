// Loaded before a program (LD_PRELOAD), it hides the instruction sets above AVX2 from the kernels. oneDNN has its own
// variable for that.

#include <hwy/targets.h>

namespace {

[[maybe_unused]] const bool are_hidden = [] {
  hwy::DisableTargets(HWY_AVX2 - 1);  // better instruction sets have lower bits
  return true;
}();

}  // namespace
