// The text for `troupe --version`. A library that is loaded at run time reports its own version; for one that is
// compiled into the program, the header's is used.

#include <dnnl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>
#include <tl/expected.hpp>
#include <toml.hpp>

#include <hwy/highway.h>
#include <CLI/Version.hpp>
#include <boost/version.hpp>
#include <caf/config.hpp>
#include <string>
#include <vector>

#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "kernels/cpu/blas.hpp"
#include "kernels/cuda_modules.hpp"

namespace troupe::apps {
namespace {

struct library_version {
  const char* name;  ///< as users write it
  const char* key;   ///< in JSON
  std::string version;
};

std::string joined(unsigned major, unsigned minor, unsigned patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

/// Returns "0.3.21" for "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH"; "not found" if there is no OpenBLAS.
std::string openblas_version() {
  const std::string text = kernels::blas_version();
  const std::size_t begin = text.find(' ') + 1;
  return text.empty() ? "not found" : text.substr(begin, text.find(' ', begin) - begin);
}

std::string onednn_version() {
  const dnnl_version_t* const version = dnnl_version();
  const auto part = [](int number) { return static_cast<unsigned>(number); };
  return joined(part(version->major), part(version->minor), part(version->patch));
}

std::vector<library_version> libraries() {
  return {{"CAF", "caf", joined(CAF_MAJOR_VERSION, CAF_MINOR_VERSION, CAF_PATCH_VERSION)},
          {"Boost", "boost", joined(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
          {"CLI11", "cli11", CLI11_VERSION},
          {"fmt", "fmt", joined(FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
          {"Highway", "highway", joined(HWY_MAJOR, HWY_MINOR, HWY_PATCH)},
          {"oneDNN", "onednn", onednn_version()},
          {"OpenBLAS", "openblas", openblas_version()},
          {"OpenSSL", "openssl", OpenSSL_version(OPENSSL_VERSION_STRING)},
          {"tl-expected", "tl_expected",
           joined(TL_EXPECTED_VERSION_MAJOR, TL_EXPECTED_VERSION_MINOR, TL_EXPECTED_VERSION_PATCH)},
          {"toml11", "toml11", joined(TOML11_VERSION_MAJOR, TOML11_VERSION_MINOR, TOML11_VERSION_PATCH)},
          {"xxHash", "xxhash", joined(XXH_VERSION_MAJOR, XXH_VERSION_MINOR, XXH_VERSION_RELEASE)},
          {"zlib", "zlib", zlibVersion()},
          {"zstd", "zstd", ZSTD_versionString()},
          {"GCC", "gcc", joined(__GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__)}};
}

}  // namespace

std::string version_text() {
  std::string text = "troupe " TROUPE_VERSION "\n\n";
  for (const library_version& one : libraries()) text += fmt::format("{:<12}{}\n", one.name, one.version);
  const std::string cuda = kernels::cuda_modules_version();
  return text + fmt::format("{:<12}{}\n", "CUDA", cuda.empty() ? "not built" : "built with " + cuda);
}

std::string version_event() {
  std::string all = "{";
  for (const library_version& one : libraries())
    all += fmt::format(R"({}"{}":{})", all.size() == 1 ? "" : ",", one.key, json_string(one.version));
  json_line line("version");
  line.add("version", TROUPE_VERSION);
  line.add_json("libraries", all + "}");
  const std::string cuda = kernels::cuda_modules_version();
  line.add_json("cuda",
                fmt::format(R"({{"built":{},"with":{}}})", !cuda.empty(), cuda.empty() ? "null" : json_string(cuda)));
  return line.take();
}

}  // namespace troupe::apps
