#include "tests/emulated_cuda/settings.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

namespace troupe::emulated_cuda {
namespace {

[[noreturn]] void refuse(const std::string& setting) {
  std::fprintf(stderr, "TROUPE_EMULATED_CUDA: '%s' is no setting\n", setting.c_str());
  std::abort();
}

struct named_error {
  const char* name;
  cudaError_t code;
  bool lasts;
};

constexpr named_error known_errors[] = {
    {"cudaErrorUnknown", cudaErrorUnknown, false},
    {"cudaErrorMemoryAllocation", cudaErrorMemoryAllocation, false},
    {"cudaErrorIllegalAddress", cudaErrorIllegalAddress, true},
    {"cudaErrorLaunchFailure", cudaErrorLaunchFailure, true},
    {"cudaErrorECCUncorrectable", cudaErrorECCUncorrectable, true},
    {"cudaErrorDevicesUnavailable", cudaErrorDevicesUnavailable, true},
};

/// Reads a whole number after `mark`, and removes both from `value`; returns `none` without the mark.
std::uint64_t cut_number(std::string& value, char mark, std::uint64_t none, const std::string& setting) {
  const std::size_t at = value.find(mark);
  if (at == std::string::npos) return none;
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(value.c_str() + at + 1, &end, 10);
  if (*end != '\0' || at + 1 == value.size()) refuse(setting);
  value.resize(at);
  return number;
}

void set_fault(settings& all, const std::string& name, std::string value, const std::string& setting) {
  planned_fault one;
  std::string error = name == "lose" ? "cudaErrorDevicesUnavailable" : "cudaErrorUnknown";
  if (const std::size_t colon = value.find(':'); colon != std::string::npos) {
    error = value.substr(colon + 1);
    value.resize(colon);
  }
  const named_error* found = nullptr;
  for (const named_error& known : known_errors)
    if (error == known.name) found = &known;
  if (found == nullptr) refuse(setting);
  one.code = found->code;
  one.lasts = found->lasts;
  one.device = static_cast<int>(cut_number(value, '/', static_cast<std::uint64_t>(any_device), setting));
  one.at = cut_number(value, '@', 0, setting);
  one.function = value;
  if (name == "lose") {
    one.function = any_function;
    one.device = std::atoi(value.c_str());
  }
  if (one.at == 0 || value.empty()) refuse(setting);
  all.faults.push_back(std::move(one));
}

void set(settings& all, const std::string& setting) {
  const std::size_t equals = setting.find('=');
  if (equals == std::string::npos) refuse(setting);
  const std::string name = setting.substr(0, equals);
  const std::string value = setting.substr(equals + 1);
  if (name == "epilogues") {
    constexpr int of_masks = CUBLASLT_EPILOGUE_RELU_AUX & CUBLASLT_EPILOGUE_DRELU;
    if (value == "none")
      all.refused_epilogues = ~CUBLASLT_EPILOGUE_DEFAULT;
    else if (value == "no_mask")
      all.refused_epilogues = of_masks;
    else if (value == "no_drelu")
      all.refused_epilogues = CUBLASLT_EPILOGUE_DRELU & ~of_masks;
    else
      refuse(setting);
    return;
  }
  if (name == "fail" || name == "lose") return set_fault(all, name, value, setting);
  if (name == "counts") {
    all.counts_file = value;
    return;
  }
  if (name == "cudnn") {
    if (value != "none") refuse(setting);
    all.has_cudnn = false;
    return;
  }
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  if (value.empty() || *end != '\0' || number < 0) refuse(setting);
  if (name == "devices") {
    all.devices = static_cast<int>(number);
  } else if (name == "memory_mib") {
    all.memory_mib = static_cast<std::size_t>(number);
  } else if (name == "capability") {
    all.capability = static_cast<int>(std::lround(number * 10));
  } else if (name == "driver") {
    all.driver = static_cast<int>(number);
  } else if (name == "hang") {
    all.hanging_sum = static_cast<std::uint64_t>(number);
  } else {
    refuse(setting);
  }
}

settings read_settings() {
  settings all;
  all.driver = CUDART_VERSION;
  const char* text = std::getenv("TROUPE_EMULATED_CUDA");
  std::istringstream list(text != nullptr ? text : "");
  for (std::string setting; std::getline(list, setting, ',');) set(all, setting);
  return all;
}

}  // namespace

const settings& configured() {
  static const settings& all = *new settings(read_settings());  // threads may ask until the very end
  return all;
}

}  // namespace troupe::emulated_cuda
