# Packages, each as an imported target. tools/setup.sh installs what is missing.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)

# CAF: in CAF_ROOT, else where tools/setup.sh installs it: one prefix per sanitizer, since a sanitizer that does not see
# the library's own synchronisation reports false errors.
if(DEFINED ENV{XDG_CACHE_HOME})
  set(troupe_cache "$ENV{XDG_CACHE_HOME}/troupe")
else()
  set(troupe_cache "$ENV{HOME}/.cache/troupe")
endif()
if(TROUPE_SANITIZER)
  set(troupe_caf_flavor "${TROUPE_SANITIZER}")
else()
  set(troupe_caf_flavor release)
endif()
find_package(CAF 0.18.7 COMPONENTS core io HINTS "${troupe_cache}/caf-0.18.7-${troupe_caf_flavor}" QUIET)
if(NOT CAF_FOUND)
  message(FATAL_ERROR "CAF 0.18.7 (${troupe_caf_flavor}) was not found in ${troupe_cache}. "
                      "Run tools/setup.sh, or set CAF_ROOT to where it is installed.")
endif()

find_path(TROUPE_BOOST_INCLUDE_DIR boost/json/src.hpp
          HINTS ENV BOOST_ROOT "${troupe_cache}/boost/usr/include" PATH_SUFFIXES include)
find_path(TROUPE_EXPECTED_INCLUDE_DIR tl/expected.hpp)
find_path(TROUPE_XXHASH_INCLUDE_DIR xxhash.h)
find_path(TROUPE_TOML11_INCLUDE_DIR toml.hpp)
find_path(TROUPE_ZSTD_INCLUDE_DIR zstd.h)
find_library(TROUPE_ZSTD_LIBRARY zstd)
find_path(TROUPE_HWY_INCLUDE_DIR hwy/highway.h)
find_library(TROUPE_HWY_LIBRARY hwy)
find_path(TROUPE_CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread openblas-serial)
find_library(TROUPE_OPENBLAS_LIBRARY openblas)
find_path(TROUPE_DNNL_INCLUDE_DIR dnnl.hpp)
find_library(TROUPE_DNNL_LIBRARY dnnl)
foreach(variable TROUPE_BOOST_INCLUDE_DIR TROUPE_EXPECTED_INCLUDE_DIR TROUPE_XXHASH_INCLUDE_DIR
                 TROUPE_TOML11_INCLUDE_DIR TROUPE_ZSTD_INCLUDE_DIR TROUPE_ZSTD_LIBRARY TROUPE_HWY_INCLUDE_DIR
                 TROUPE_HWY_LIBRARY TROUPE_CBLAS_INCLUDE_DIR TROUPE_OPENBLAS_LIBRARY TROUPE_DNNL_INCLUDE_DIR
                 TROUPE_DNNL_LIBRARY)
  if(NOT ${variable})
    message(FATAL_ERROR "${variable} was not found. Run tools/setup.sh, or set it to where the package is.")
  endif()
endforeach()

file(STRINGS "${TROUPE_BOOST_INCLUDE_DIR}/boost/version.hpp" troupe_boost_version REGEX "^#define BOOST_VERSION ")
string(REGEX MATCH "[0-9]+$" troupe_boost_version "${troupe_boost_version}")
if(troupe_boost_version LESS 108100)  # 1.81, the first with boost/unordered/unordered_flat_map.hpp
  message(FATAL_ERROR "Boost in ${TROUPE_BOOST_INCLUDE_DIR} has BOOST_VERSION ${troupe_boost_version}, older than 1.81 "
                      "(108100). Run tools/setup.sh, or set BOOST_ROOT or TROUPE_BOOST_INCLUDE_DIR to a newer one.")
endif()

function(troupe_package name)
  cmake_parse_arguments(arg "" "" "INCLUDE;LINK" ${ARGN})
  add_library(troupe_${name} INTERFACE)
  target_include_directories(troupe_${name} SYSTEM INTERFACE ${arg_INCLUDE})
  target_link_libraries(troupe_${name} INTERFACE ${arg_LINK})
endfunction()

troupe_package(boost INCLUDE "${TROUPE_BOOST_INCLUDE_DIR}")
add_library(troupe_json STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/boost_json.cpp")  # Boost.JSON, compiled once
target_link_libraries(troupe_json PUBLIC troupe_boost)
add_library(troupe_url STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_LIST_DIR}/boost_url.cpp")  # Boost.URL, compiled once
target_link_libraries(troupe_url PUBLIC troupe_boost)
troupe_package(expected INCLUDE "${TROUPE_EXPECTED_INCLUDE_DIR}")
troupe_package(xxhash INCLUDE "${TROUPE_XXHASH_INCLUDE_DIR}")
troupe_package(toml11 INCLUDE "${TROUPE_TOML11_INCLUDE_DIR}")
troupe_package(zstd INCLUDE "${TROUPE_ZSTD_INCLUDE_DIR}" LINK "${TROUPE_ZSTD_LIBRARY}")
troupe_package(highway INCLUDE "${TROUPE_HWY_INCLUDE_DIR}" LINK "${TROUPE_HWY_LIBRARY}")
# Processors before SSE4 (2008) use the scalar kernels: each instruction set compiles all kernels once more.
target_compile_definitions(troupe_highway INTERFACE HWY_DISABLED_TARGETS=HWY_SSSE3)
troupe_package(openblas INCLUDE "${TROUPE_CBLAS_INCLUDE_DIR}" LINK ${CMAKE_DL_LIBS})  # kernels/cpu/blas.cpp loads it
troupe_package(dnnl INCLUDE "${TROUPE_DNNL_INCLUDE_DIR}" LINK "${TROUPE_DNNL_LIBRARY}" gomp)  # oneDNN, and its OpenMP
