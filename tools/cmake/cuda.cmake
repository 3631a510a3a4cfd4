# The CUDA backend: modules that the program loads only when a device is requested, so that the program itself needs
# neither a driver nor the memory of CUDA's libraries.
#
#   troupe_cuda_probe    lists the devices; the runtime alone
#   troupe_cuda          computes on them, with cuBLASLt and NCCL, and cuDNN, which it loads for convolutions
#   troupe_cuda_headers  headers and options of both, and of the tests' emulation, which needs no CUDA compiler

set(TROUPE_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (if all that it needs is found), ON or OFF")
set_property(CACHE TROUPE_CUDA PROPERTY STRINGS AUTO ON OFF)
set(troupe_cuda_oldest 12.4)

# -- the headers ------------------------------------------------------------------------------------------------------

# Makes the target troupe_cuda_headers, or sets `result` to what is missing.
function(troupe_find_cuda_headers result)
  if(NOT CUDAToolkit_FOUND)
    set(${result} "no CUDA toolkit ${troupe_cuda_oldest} or newer was found" PARENT_SCOPE)
    return()
  endif()
  find_path(TROUPE_CUBLASLT_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(TROUPE_NCCL_INCLUDE_DIR nccl.h HINTS "${NCCL_ROOT}" ENV NCCL_ROOT ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_path(TROUPE_CUDNN_INCLUDE_DIR cudnn.h HINTS "${CUDNN_ROOT}" ENV CUDNN_ROOT ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  troupe_header_version(cudnn_version "${TROUPE_CUDNN_INCLUDE_DIR}/cudnn_version.h"
                        CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
  if(NOT TROUPE_CUBLASLT_INCLUDE_DIR)
    set(${result} "the toolkit has no cublasLt.h" PARENT_SCOPE)
  elseif(NOT TROUPE_NCCL_INCLUDE_DIR)
    set(${result} "no nccl.h was found; NCCL_ROOT may name where NCCL is installed" PARENT_SCOPE)
  elseif(NOT TROUPE_CUDNN_INCLUDE_DIR)
    set(${result} "no cudnn.h was found; CUDNN_ROOT may name where cuDNN 9 is installed" PARENT_SCOPE)
  elseif(NOT cudnn_version MATCHES "^9\\.")
    set(${result} "cudnn.h in ${TROUPE_CUDNN_INCLUDE_DIR} is not version 9, but '${cudnn_version}'; CUDNN_ROOT may name one"
        PARENT_SCOPE)
  else()
    add_library(troupe_cuda_headers INTERFACE)
    target_include_directories(troupe_cuda_headers INTERFACE "${PROJECT_SOURCE_DIR}")
    target_include_directories(troupe_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS}
      "${TROUPE_CUBLASLT_INCLUDE_DIR}" "${TROUPE_NCCL_INCLUDE_DIR}" "${TROUPE_CUDNN_INCLUDE_DIR}")
    # As for the processor's kernels: contracted only where the code says so.
    # In a unity build gcc treats the sources as headers, whose classes must not have types of unnamed namespaces.
    target_compile_options(troupe_cuda_headers INTERFACE
      "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-ffp-contract=off>"
      "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>"
      "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>")
    if(TROUPE_WERROR)
      target_compile_options(troupe_cuda_headers INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>"
        "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Werror>")
    endif()
  endif()
endfunction()

# -- libraries and compiler -------------------------------------------------------------------------------------------

# Sets `result` to what the modules themselves lack, if anything.
function(troupe_find_cuda result)
  if(TROUPE_SANITIZER)
    set(${result} "nvcc does not know the sanitizers" PARENT_SCOPE)
    return()
  endif()
  find_library(TROUPE_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS "${NCCL_ROOT}" ENV NCCL_ROOT ${CUDAToolkit_LIBRARY_DIR}
               PATH_SUFFIXES lib lib64)
  if(NOT TARGET CUDA::cudart_static OR NOT TARGET CUDA::cublasLt)
    set(${result} "the toolkit lacks libcudart_static or libcublasLt" PARENT_SCOPE)
    return()
  elseif(NOT TROUPE_NCCL_LIBRARY)
    set(${result} "no libnccl was found; NCCL_ROOT may name where NCCL is installed" PARENT_SCOPE)
    return()
  endif()
  if(NOT DEFINED ENV{CUDACXX})  # nvcc need not be on the PATH
    set(ENV{CUDACXX} "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  if(NOT CMAKE_CUDA_COMPILER)  # it may work now even if it did not before
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(${result} "the CUDA compiler does not work here" PARENT_SCOPE)
  endif()
endfunction()

# Sets `result` to a library's version, from the numbers that its header defines by the names in the arguments.
function(troupe_header_version result header)
  set(parts "")
  if(EXISTS "${header}")
    foreach(name IN LISTS ARGN)
      file(STRINGS "${header}" line REGEX "^#define ${name} +[0-9]+")
      string(REGEX MATCH "[0-9]+$" part "${line}")
      list(APPEND parts "${part}")
    endforeach()
  endif()
  list(JOIN parts "." version)
  set(${result} "${version}" PARENT_SCOPE)
endfunction()

set(troupe_no_cuda "")
if(NOT TROUPE_CUDA)
  set(troupe_no_cuda "TROUPE_CUDA is off")
else()
  # CMake 3.25 fails with CUDA 13, which has no nvToolsExt, unless the minimum CMake is older.
  set(troupe_minimum_cmake ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit ${troupe_cuda_oldest} QUIET)
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${troupe_minimum_cmake})
  troupe_find_cuda_headers(troupe_no_cuda)
  if(NOT troupe_no_cuda)
    troupe_find_cuda(troupe_no_cuda)
  endif()
endif()
if(troupe_no_cuda)
  if(TROUPE_CUDA AND NOT TROUPE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "TROUPE_CUDA is ${TROUPE_CUDA}, but the CUDA backend cannot be built: ${troupe_no_cuda}")
  endif()
  message(STATUS "CUDA backend: not built, ${troupe_no_cuda}")
  return()
endif()

# -- the modules ------------------------------------------------------------------------------------------------------

# Ampere and Hopper, and PTX code, which newer devices translate.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "Compute capabilities to compile for")
endif()
enable_language(CUDA)
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that CUDA 12 has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()

troupe_header_version(troupe_nccl_version "${TROUPE_NCCL_INCLUDE_DIR}/nccl.h" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
troupe_header_version(troupe_cudnn_version "${TROUPE_CUDNN_INCLUDE_DIR}/cudnn_version.h"
                      CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
message(STATUS "CUDA backend: built with CUDA ${CMAKE_CUDA_COMPILER_VERSION}, NCCL ${troupe_nccl_version}, "
               "cuDNN ${troupe_cudnn_version}, for ${CMAKE_CUDA_ARCHITECTURES}")

# Replaces the sources in `list` by units of six each, which CMake 3.25 does not make for CUDA. The source that includes
# CUB stays alone.
function(troupe_unite list)
  set(units ${${list}})
  list(FILTER units INCLUDE REGEX "/sort\\.cu$")
  list(REMOVE_ITEM ${list} ${units})
  list(LENGTH ${list} count)
  math(EXPR last "(${count} - 1) / 6")
  foreach(number RANGE ${last})
    math(EXPR first "${number} * 6")
    list(SUBLIST ${list} ${first} 6 sources)
    list(TRANSFORM sources REPLACE "(.+)" "#include \"\\1\"")
    list(JOIN sources "\n" text)
    set(unit "${PROJECT_BINARY_DIR}/cuda_units/${number}.cu")
    file(GENERATE OUTPUT "${unit}" CONTENT "${text}\n")
    list(APPEND units "${unit}")
  endforeach()
  set(${list} ${units} PARENT_SCOPE)
endfunction()

# troupe_cuda_module(NAME SOURCES source... [LINK library...])
function(troupe_cuda_module name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE troupe_cuda_headers ${arg_LINK})
  target_link_options(${name} PRIVATE -Wl,--no-undefined -Wl,--exclude-libs,ALL)
  # The runtime is linked into each: neither depends on the toolkit's folder.
  set_target_properties(${name} PROPERTIES
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF CUDA_RUNTIME_LIBRARY Static
    CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()

file(GLOB troupe_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp")
file(GLOB troupe_cuda_kernels CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu")
if(CMAKE_UNITY_BUILD)
  troupe_unite(troupe_cuda_kernels)
endif()
troupe_cuda_module(troupe_cuda SOURCES ${troupe_cuda_sources} ${troupe_cuda_kernels}
                   LINK CUDA::cublasLt "${TROUPE_NCCL_LIBRARY}")
cmake_path(GET TROUPE_NCCL_LIBRARY PARENT_PATH troupe_nccl_folder)
set(troupe_cuda_folders "${CUDAToolkit_LIBRARY_DIR}" "${troupe_nccl_folder}")
# cuDNN is loaded when a convolution is first used; the build does not need it.
find_library(TROUPE_CUDNN_LIBRARY NAMES libcudnn.so.9 HINTS "${CUDNN_ROOT}" ENV CUDNN_ROOT ${CUDAToolkit_LIBRARY_DIR}
             PATH_SUFFIXES lib lib64)
if(TROUPE_CUDNN_LIBRARY)
  cmake_path(GET TROUPE_CUDNN_LIBRARY PARENT_PATH troupe_cudnn_folder)
  list(APPEND troupe_cuda_folders "${troupe_cudnn_folder}")
  list(REMOVE_DUPLICATES troupe_cuda_folders)
endif()
# CMake omits the folders from which nvcc links by itself, but the dynamic loader does not know them.
set_target_properties(troupe_cuda PROPERTIES BUILD_RPATH "${troupe_cuda_folders}"
                      INSTALL_RPATH "${troupe_cuda_folders}")
troupe_cuda_module(troupe_cuda_probe SOURCES "${PROJECT_SOURCE_DIR}/kernels/cuda/probe/devices.cu")

# The target `troupe` builds the modules that the program can use: the probe reports why there are no devices; the other
# needs a driver. The target `all`, which tests need, builds both.
set(troupe_cuda_used troupe_cuda_probe)
if(EXISTS /proc/driver/nvidia/version OR EXISTS /dev/dxg)
  list(APPEND troupe_cuda_used troupe_cuda)
endif()
cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL add_dependencies troupe ${troupe_cuda_used})

set_property(SOURCE "${PROJECT_SOURCE_DIR}/kernels/cuda_modules.cpp" DIRECTORY "${PROJECT_SOURCE_DIR}/kernels"
  APPEND PROPERTY COMPILE_DEFINITIONS
  TROUPE_CUDA_VERSION="CUDA ${CMAKE_CUDA_COMPILER_VERSION}, NCCL ${troupe_nccl_version}")

# Programs look for the modules in their own folder, so the folders of tests and benchmarks get links.
function(troupe_link_cuda_modules folder)
  get_property(targets DIRECTORY "${folder}" PROPERTY BUILDSYSTEM_TARGETS)
  get_property(binaries DIRECTORY "${folder}" PROPERTY BINARY_DIR)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE AND NOT binaries STREQUAL CMAKE_BINARY_DIR)
      foreach(module troupe_cuda troupe_cuda_probe)
        file(CREATE_LINK "${CMAKE_BINARY_DIR}/lib${module}.so" "${binaries}/lib${module}.so" SYMBOLIC)
      endforeach()
      break()
    endif()
  endforeach()
  get_property(subfolders DIRECTORY "${folder}" PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS subfolders)
    troupe_link_cuda_modules("${subfolder}")
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY "${PROJECT_SOURCE_DIR}" CALL troupe_link_cuda_modules "${PROJECT_SOURCE_DIR}")
