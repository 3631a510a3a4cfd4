#include "kernels/devices.hpp"

#include <dlfcn.h>
#include <hwy/highway.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "kernels/backend.hpp"
#include "kernels/cuda/probe/devices.hpp"

namespace troupe::kernels {
namespace {

// -- the modules of the CUDA backend ----------------------------------------------------------------------------------
//
// They are loaded at run time, only from the program's own folder: anyone who can write there could replace the
// program. The build links them into the folders of tests and benchmarks. For tests, the environment variable
// TROUPE_CUDA_MODULE names one file that replaces all modules, even in a build without them.

#ifdef TROUPE_CUDA_BUILT
constexpr bool is_built = true;
#else
constexpr bool is_built = false;
#endif

constexpr const char* variable = "TROUPE_CUDA_MODULE";

std::filesystem::path folder_of_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

std::string last_loader_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error of the dynamic loader";
}

/// Returns whether this build has the modules, or a test names one.
bool cuda_built() { return is_built || std::getenv(variable) != nullptr; }

/// A function of a module; if null, `error` says why and what to try.
struct cuda_symbol {
  void* address = nullptr;
  std::string error;
};

/// Loads the module `file` and looks up `symbol`. The module stays loaded, because CUDA's runtime cannot be unloaded.
/// Thread: any.
cuda_symbol find_cuda_symbol(const char* file, const char* symbol) {
  const char* named = std::getenv(variable);
  const std::filesystem::path path = named != nullptr ? named : folder_of_program() / file;
  std::error_code error;
  if (named == nullptr && (!path.is_absolute() || !std::filesystem::is_regular_file(path, error)))
    return {nullptr, std::string("the CUDA backend was built, but ") + file + " is not next to the program, in " +
                         folder_of_program().string() +
                         "; build the target troupe_cuda, or copy it there from where it was built"};
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* address = module != nullptr ? dlsym(module, symbol) : nullptr;
  if (address != nullptr) return {address, ""};
  return {nullptr, "the CUDA backend could not be loaded: " + last_loader_error() +
                       "; LD_LIBRARY_PATH may name the folders of CUDA's libraries"};
}

/// Fills in the CUDA devices, or why there are none.
void ask_cuda_probe(device_report& report) {
  if (!cuda_built()) {
    report.reason = "this program was built without the CUDA backend";
    return;
  }
  report.cuda_built = true;
  const cuda_symbol symbol = find_cuda_symbol(cuda::probe_file, cuda::find_devices_symbol);
  if (symbol.address == nullptr) {
    report.reason = symbol.error;
    report.cuda_refused = true;
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

/// Asks the probe first: it is cheaper, and its errors are clearer than those of the backend's libraries.
backend& load_cuda_backend() {
  if (const device_report report = find_devices(); !report.cuda_usable) throw device_error(report.reason);
  const cuda_symbol symbol = find_cuda_symbol("libtroupe_cuda.so", backend_symbol);
  if (symbol.address == nullptr) throw device_error(symbol.error);
  return reinterpret_cast<backend_function*>(symbol.address)();
}

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) names.emplace_back(hwy::TargetName(target));
  return names;
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
