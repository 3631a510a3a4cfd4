# Language level, warnings and sanitizers of every target of the project.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
include(GNUInstallDirs)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, RelWithDebInfo or Debug" FORCE)
endif()

option(TROUPE_WERROR "Treat warnings as errors" OFF)
set(TROUPE_SANITIZER "" CACHE STRING "Empty, asan-ubsan or tsan; CAF must be built with the same")
set_property(CACHE TROUPE_SANITIZER PROPERTY STRINGS "" asan-ubsan tsan)

option(TROUPE_FUZZ "Build the fuzz targets with libFuzzer, and nothing else; needs clang" OFF)

# Uses a compiler cache if one is installed.
find_program(TROUPE_CCACHE ccache)
mark_as_advanced(TROUPE_CCACHE)
foreach(language CXX CUDA)
  if(TROUPE_CCACHE AND NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER "${TROUPE_CCACHE}")
  endif()
endforeach()

add_library(troupe_settings INTERFACE)
target_include_directories(troupe_settings INTERFACE "${PROJECT_SOURCE_DIR}")
# a*b+c is contracted only where the code says so, so that results do not depend on the optimizer.
target_compile_options(troupe_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
if(TROUPE_WERROR)
  target_compile_options(troupe_settings INTERFACE -Werror)
endif()

# With sanitizers gcc 12 warns that members of empty optionals are read uninitialised.
if(TROUPE_SANITIZER STREQUAL "asan-ubsan")
  set(troupe_sanitizer_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
      -Wno-maybe-uninitialized)
elseif(TROUPE_SANITIZER STREQUAL "tsan")
  # gcc 12 warns that it cannot see through atomic_thread_fence, which library headers use.
  set(troupe_sanitizer_flags -fsanitize=thread -Wno-tsan -Wno-maybe-uninitialized)
elseif(NOT TROUPE_SANITIZER STREQUAL "")
  message(FATAL_ERROR "TROUPE_SANITIZER is '${TROUPE_SANITIZER}'; it must be empty, asan-ubsan or tsan")
endif()
if(TROUPE_FUZZ)  # CAF is not instrumented: the targets test our code
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR TROUPE_SANITIZER)
    message(FATAL_ERROR "TROUPE_FUZZ needs clang, which has libFuzzer, and brings its own sanitizers")
  endif()
  # Checks that cost a third of the compiler's time run in the preset asan-ubsan, which replays the targets.
  set(troupe_sanitizer_flags -fsanitize=address,undefined -fno-sanitize=alignment,null,object-size,vptr
      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
add_compile_options(${troupe_sanitizer_flags})
add_link_options(${troupe_sanitizer_flags})
