#include "kernels/devices.hpp"

#include <dlfcn.h>
#include <hwy/highway.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "kernels/cuda/devices.hpp"

namespace troupe::kernels {
namespace {

// -- CUDA -------------------------------------------------------------------------------------------------------------

#ifdef TROUPE_CUDA_MODULE
constexpr bool cuda_built = true;
constexpr const char* built_module = TROUPE_CUDA_MODULE;
#else
constexpr bool cuda_built = false;
constexpr const char* built_module = "";
#endif

/// The module next to the program, else where it was built; empty if neither is there.
std::filesystem::path find_cuda_module() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const auto& path : {program.parent_path() / cuda::module_file, std::filesystem::path(built_module)}) {
    if (path.is_absolute() && std::filesystem::is_regular_file(path, error)) return path;
  }
  return {};
}

std::string last_loader_error() {
  const char* text = dlerror();
  return text ? text : "unknown error of the dynamic loader";
}

/// Fills in `devices`, or `reason`. The module stays loaded: CUDA's runtime does not survive being unloaded.
void ask_cuda_module(device_report& report) {
  const std::filesystem::path path = find_cuda_module();
  if (path.empty()) {
    report.reason = std::string("the CUDA backend was built, but ") + cuda::module_file + " is not next to the program";
    return;
  }
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* symbol = module ? dlsym(module, cuda::find_devices_symbol) : nullptr;
  if (!symbol) {
    report.reason = "the CUDA backend could not be loaded: " + last_loader_error();
    return;
  }
  std::array<cuda::device_facts, 64> facts{};
  std::array<char, 256> error{};
  const auto find = reinterpret_cast<cuda::find_devices_function*>(symbol);
  const int count = find(facts.data(), static_cast<int>(facts.size()), error.data(), error.size());
  if (count < 0) report.reason = error.data();
  if (count == 0) report.reason = "no CUDA device";
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
  utsname system{};  // processors other than x86 have no name there
  return uname(&system) == 0 ? system.machine : "unknown";
}

std::size_t count_cores() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return static_cast<std::size_t>(CPU_COUNT(&allowed));
  return std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  return names;
}

device_report find_devices() noexcept {
  device_report report;
  report.cuda_built = cuda_built;
  if (cuda_built) {
    ask_cuda_module(report);
  } else {
    report.reason = "this program was built without the CUDA backend";
  }
  report.cuda_usable = !report.devices.empty();

  report.cpu_name = find_cpu_name();
  report.cpu_cores = count_cores();
  report.instruction_sets = instruction_sets();
  report.cpu_target = report.instruction_sets.front();
  return report;
}

}  // namespace troupe::kernels
