# CUDA, found or not: both are fine. The GPU backend is a module that the program loads only when a device is asked for,
# so that the program itself needs neither a driver nor the memory of CUDA's libraries.

option(TROUPE_CUDA "Build the CUDA backend if a toolkit is found" ON)

# Sets `result` to why the backend is not built, or to nothing if it can be.
function(troupe_find_cuda result)
  set(${result} "" PARENT_SCOPE)
  if(NOT TROUPE_CUDA)
    set(${result} "TROUPE_CUDA is off" PARENT_SCOPE)
    return()
  elseif(TROUPE_SANITIZER)
    set(${result} "nvcc does not know the sanitizers" PARENT_SCOPE)
    return()
  endif()
  find_package(CUDAToolkit 11.8 QUIET)
  if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cudart_static)
    set(${result} "no CUDA toolkit 11.8 or newer was found" PARENT_SCOPE)
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

troupe_find_cuda(troupe_no_cuda)
if(troupe_no_cuda)
  message(STATUS "CUDA backend: not built, ${troupe_no_cuda}")
  return()
endif()

# The oldest devices that CUDA 13 compiles for, and the code that newer ones translate.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;90" CACHE STRING "Compute capabilities to compile for")
endif()
enable_language(CUDA)
message(STATUS "CUDA backend: built with CUDA ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")

file(GLOB troupe_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu")
add_library(troupe_cuda MODULE ${troupe_cuda_sources})
target_include_directories(troupe_cuda PRIVATE "${PROJECT_SOURCE_DIR}")
target_compile_options(troupe_cuda PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
set_target_properties(troupe_cuda PROPERTIES
  CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static
  CUDA_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")

# What asks for the module has it built before, but does not link it.
add_dependencies(troupe_kernels troupe_cuda)
set_property(SOURCE "${PROJECT_SOURCE_DIR}/kernels/devices.cpp" DIRECTORY "${PROJECT_SOURCE_DIR}/kernels"
  APPEND PROPERTY COMPILE_DEFINITIONS TROUPE_CUDA_MODULE="$<TARGET_FILE:troupe_cuda>")
