// Finds the modules: beside the program or libtroupe.so, whichever contains this code, where the build leaves them
// (also in the folders of tests and benchmarks); or where they are installed: PREFIX/LIB/troupe for PREFIX/bin/troupe
// and for PREFIX/LIB/libtroupe.so. Nowhere else: only users who can replace the program can replace its modules. For
// tests, the environment variable TROUPE_CUDA_MODULE names one file that replaces all modules, even in a build without
// them.

#include "kernels/cuda_modules.hpp"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace troupe::kernels {
namespace {

#ifdef TROUPE_CUDA_VERSION
constexpr const char* built_with = TROUPE_CUDA_VERSION;
#else
constexpr const char* built_with = "";
#endif

constexpr const char* module_folder = "troupe";  // among the installed libraries
constexpr const char* variable = "TROUPE_CUDA_MODULE";

/// The file that contains this code.
struct own_file {
  std::filesystem::path path;
  bool is_library = false;
};

own_file find_own_file() {
  Dl_info info{};
  void* found = nullptr;
  std::error_code error;
  const int known = dladdr1(reinterpret_cast<const void*>(&find_own_file), &info, &found, RTLD_DL_LINKMAP);
  const auto* map = static_cast<const link_map*>(found);
  if (known != 0 && map != nullptr && map->l_name != nullptr && *map->l_name != '\0')  // the program has no name there
    return {std::filesystem::canonical(map->l_name, error), true};
  return {std::filesystem::read_symlink("/proc/self/exe", error), false};
}

/// Returns the path of the installed module, whether or not it exists.
std::filesystem::path installed(const own_file& own, const char* file) {
  const std::filesystem::path folder = own.path.parent_path();
  if (own.is_library) return folder / module_folder / file;
  return folder.parent_path() / TROUPE_LIBRARY_FOLDER / module_folder / file;
}

/// Whether the module belongs to root, or to the program's owner: around a program below /tmp, for example, other users
/// could have made files.
bool is_trusted(const std::filesystem::path& module, const own_file& own) {
  struct stat of_module {};
  struct stat of_own {};
  if (stat(module.c_str(), &of_module) != 0 || stat(own.path.c_str(), &of_own) != 0) return false;
  return of_module.st_uid == 0 || of_module.st_uid == of_own.st_uid;
}

/// Returns the module's path; if empty, `error` says where it was searched.
std::filesystem::path find_module(const char* file, std::string& error) {
  if (const char* named = std::getenv(variable)) return named;
  const own_file own = find_own_file();
  std::filesystem::path beside = own.path.parent_path() / file;
  std::filesystem::path away = installed(own, file);
  std::error_code ignored;
  if (own.path.is_absolute()) {
    if (std::filesystem::is_regular_file(beside, ignored)) return beside;
    if (std::filesystem::is_regular_file(away, ignored) && is_trusted(away, own)) return away;
  }
  error = std::string("the CUDA backend was built, but ") + file + " is not next to the " +
          (own.is_library ? "library" : "program") + ", in " + beside.parent_path().string() +
          ", and not installed in " + away.parent_path().string() +
          "; build the target troupe_cuda, or copy it there from where it was built";
  return {};
}

std::string last_loader_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error of the dynamic loader";
}

}  // namespace

const char* cuda_modules_version() { return built_with; }

bool has_cuda_modules() { return *built_with != '\0' || std::getenv(variable) != nullptr; }

module_symbol find_in_module(const char* file, const char* symbol) {
  module_symbol found;
  const std::filesystem::path path = find_module(file, found.error);
  found.is_missing = path.empty() && !found.error.empty();
  if (found.is_missing) return found;
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  found.address = module != nullptr ? dlsym(module, symbol) : nullptr;
  if (found.address == nullptr)
    found.error = "the CUDA backend could not be loaded: " + last_loader_error() +
                  "; LD_LIBRARY_PATH may name the folders of CUDA's libraries";
  return found;
}

}  // namespace troupe::kernels
