#include "tests/emulated_cuda/settings.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace troupe::emulated_cuda {
namespace {

[[noreturn]] void refuse(const std::string& setting) {
  std::fprintf(stderr, "TROUPE_EMULATED_CUDA: '%s' is no setting\n", setting.c_str());
  std::abort();
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
  static const settings all = read_settings();
  return all;
}

}  // namespace troupe::emulated_cuda
