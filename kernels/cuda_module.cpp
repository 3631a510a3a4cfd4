#include "kernels/cuda_module.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "kernels/backend.hpp"
#include "kernels/devices.hpp"

namespace troupe::kernels {
namespace {

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

/// The probe is asked first: what it says is plainer than an error of the backend's libraries, and costs less.
backend& load_cuda_backend() {
  if (const device_report report = find_devices(); !report.cuda_usable) throw device_error(report.reason);
  const cuda_symbol symbol = find_cuda_symbol("libtroupe_cuda.so", backend_symbol);
  if (symbol.address == nullptr) throw device_error(symbol.error);
  return reinterpret_cast<backend_function*>(symbol.address)();
}

}  // namespace

bool cuda_built() { return is_built || std::getenv(variable) != nullptr; }

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

backend& cuda_backend() {
  static backend& loaded = load_cuda_backend();
  return loaded;
}

}  // namespace troupe::kernels
