// Shared by tests of CUDA devices: real or emulated devices, a run's figures, and a short job.

#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "kernels/devices.hpp"
#include "tests/end_to_end/several.hpp"

namespace troupe::end_to_end {

inline bool is_emulated() { return std::getenv("TROUPE_CUDA_MODULE") != nullptr; }

inline launch with_cards(const std::string& settings) {
  launch how;
  how.environment = {{"TROUPE_EMULATED_CUDA", settings}};
  return how;
}

/// For tests that run on any device.
class CudaGpu : public testing::Test {
 protected:
  void SetUp() override {
    const kernels::device_report found = kernels::find_devices();
    ASSERT_TRUE(found.cuda_usable || !is_emulated()) << found.reason;
    if (!found.cuda_usable) GTEST_SKIP() << "skipped: no CUDA device (" << found.reason << ")";
  }
};

/// For tests that need the emulation, even on a machine with a card.
class EmulatedCudaGpu : public CudaGpu {
 protected:
  void SetUp() override {
    if (!is_emulated()) GTEST_SKIP() << "skipped: needs the emulated CUDA devices";
  }
};

struct run_figures {
  double loss = 0;
  std::string digest;
};

inline run_figures train_on_cards(const args& options, const launch& how = {}) {
  const outcome result = run(with({"train", "--json", "--quiet"}, options), how);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  if (result.exit_code != 0) return {};
  const auto done = last_event(result, "done");
  return {done.at("loss").to_number<double>(), std::string(done.at("weights_digest").as_string())};
}

/// Enough steps to distinguish results, without the test rows. `whole_epoch` of cuda_test.cpp covers these, and an
/// epoch's short last batch.
inline const args adult = {"--data", "adult", "--steps", "12", "--eval-every", "0"};
}  // namespace troupe::end_to_end
