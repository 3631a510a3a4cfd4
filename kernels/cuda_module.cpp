#include "kernels/cuda_module.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace troupe::kernels {
namespace {

#ifdef TROUPE_CUDA_FOLDER
constexpr const char* built_folder = TROUPE_CUDA_FOLDER;
#else
constexpr const char* built_folder = "";
#endif

constexpr const char* variable = "TROUPE_CUDA_MODULE";

/// Empty if the file is nowhere.
std::filesystem::path find_module(const char* file) {
  if (const char* named = std::getenv(variable)) return named;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const auto& folder : {program.parent_path(), std::filesystem::path(built_folder)}) {
    if (folder.is_absolute() && std::filesystem::is_regular_file(folder / file, error)) return folder / file;
  }
  return {};
}

std::string last_loader_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error of the dynamic loader";
}

}  // namespace

bool cuda_built() { return *built_folder != '\0' || std::getenv(variable) != nullptr; }

cuda_symbol find_cuda_symbol(const char* file, const char* symbol) {
  const std::filesystem::path path = find_module(file);
  if (path.empty()) {
    return {nullptr, std::string("the CUDA backend was built, but ") + file +
                         " is neither next to the program nor in " + built_folder + "; copy it next to the program"};
  }
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  void* address = module != nullptr ? dlsym(module, symbol) : nullptr;
  if (address != nullptr) return {address, ""};
  return {nullptr, "the CUDA backend could not be loaded: " + last_loader_error() +
                       "; LD_LIBRARY_PATH may name the folders of CUDA's libraries"};
}

}  // namespace troupe::kernels
