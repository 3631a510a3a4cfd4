#include "kernels/devices.hpp"

#include <hwy/highway.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "base/mapped.hpp"
#include "kernels/backend.hpp"
#include "kernels/cuda/probe/devices.hpp"
#include "kernels/cuda_modules.hpp"

namespace troupe::kernels {
namespace {

/// Whether an NVIDIA driver is installed, in Linux itself or in Windows below it.
bool has_driver() {
  std::error_code ignored;
  return std::filesystem::exists("/proc/driver/nvidia/version", ignored) ||
         std::filesystem::exists("/dev/dxg", ignored);
}

/// Fills in the CUDA devices, or the reason for none.
void ask_cuda_probe(device_report& report) {
  if (!has_cuda_modules()) {
    report.reason = "this program was built without the CUDA backend";
    return;
  }
  report.cuda_built = true;
  const module_symbol symbol = find_in_module(cuda::probe_file, cuda::find_devices_symbol);
  if (symbol.address == nullptr) {
    report.reason = symbol.error;
    // Packages lack the modules: that is no fault on a machine without a driver.
    report.cuda_refused = !symbol.is_missing || has_driver();
    return;
  }
  std::array<cuda::device_facts, 64> facts{};
  std::array<char, 256> error{};
  const auto find = reinterpret_cast<cuda::find_devices_function*>(symbol.address);
  const int count = find(facts.data(), static_cast<int>(facts.size()), error.data(), error.size());
  report.cuda_refused = count < 0;
  if (count <= 0) report.reason = error.data();
  for (int i = 0; i < count && i < static_cast<int>(facts.size()); ++i) {
    const cuda::device_facts& found = facts[static_cast<std::size_t>(i)];
    report.devices.push_back({found.name, found.memory_bytes, found.compute_major, found.compute_minor});
  }
}

// -- the processor ----------------------------------------------------------------------------------------------------

std::string find_cpu_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t value = line.find(": ");
    if (line.rfind("model name", 0) == 0 && value != std::string::npos) return line.substr(value + 2);
  }
  utsname system{};  // /proc/cpuinfo names x86 processors only
  return uname(&system) == 0 ? system.machine : "unknown";
}

std::size_t count_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<std::size_t>(CPU_COUNT(&allowed));
  return std::max(1u, std::thread::hardware_concurrency());
}

/// Runs the probe first: it is cheaper, and its errors are clearer than those of the backend's libraries.
backend& load_cuda_backend() {
  if (const device_report report = find_devices(); !report.cuda_usable)
    throw device_error("no CUDA device can be used: " + report.reason + "; 'troupe devices' lists the devices");
  const module_symbol symbol = find_in_module("libtroupe_cuda.so", backend_symbol);
  if (symbol.address == nullptr) throw device_error(symbol.error);
  return reinterpret_cast<backend_function*>(symbol.address)();
}

}  // namespace

std::vector<std::string> instruction_sets() {
  return mapped<std::string>(hwy::SupportedAndGeneratedTargets(), hwy::TargetName);
}

device_report find_devices() noexcept {
  device_report report;
  ask_cuda_probe(report);
  const auto new_enough = [](const cuda_device& one) { return one.compute_major >= compute_major_min; };
  report.cuda_usable = std::any_of(report.devices.begin(), report.devices.end(), new_enough);
  if (!report.cuda_usable && !report.devices.empty()) {
    report.cuda_refused = true;
    report.reason = "no CUDA device has the compute capability " + std::to_string(compute_major_min) +
                    ".0 or more: " + report.devices.front().name + " has " +
                    std::to_string(report.devices.front().compute_major) + "." +
                    std::to_string(report.devices.front().compute_minor);
  }

  report.cpu_name = find_cpu_name();
  report.cpu_cores = count_cores();
  report.instruction_sets = instruction_sets();
  report.cpu_target = report.instruction_sets.front();
  return report;
}

backend& cuda_backend() {
  static backend& loaded = load_cuda_backend();
  return loaded;
}

}  // namespace troupe::kernels
