// The fixture of tests on a CUDA device.

#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/devices.hpp"

namespace troupe {

/// Skips its tests without a CUDA device; fails them if TROUPE_CUDA_MODULE names a module without one.
class needs_device : public testing::Test {
 protected:
  void SetUp() override {
    const kernels::device_report found = kernels::find_devices();
    if (found.cuda_usable) return;
    if (std::getenv("TROUPE_CUDA_MODULE") != nullptr) FAIL() << found.reason;
    GTEST_SKIP() << "skipped: no CUDA device (" << found.reason << ")";
  }
};

}  // namespace troupe
