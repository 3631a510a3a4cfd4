# troupe_component(NAME [WITHOUT folder] LINK target...): makes a folder's library from all its sources, without `folder`.
# troupe_test(NAME [LABEL label] [OPTIMIZE level] LINK target...): makes the test program of the current folder, from
#   all of its sources.
# troupe_emulated_tests(NAME): adds its tests that need a GPU once more, on an emulated one, if the emulation is built.

set(troupe_test_timeout 300)  # seconds
if(TROUPE_SANITIZER)
  set(troupe_test_timeout 1200)
endif()

function(troupe_component name)
  cmake_parse_arguments(arg "" "WITHOUT" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" *.cpp)
  if(arg_WITHOUT)
    list(FILTER sources EXCLUDE REGEX "^${arg_WITHOUT}/")
  endif()
  add_library(troupe_${name} STATIC ${sources})
  target_link_libraries(troupe_${name} PUBLIC troupe_settings ${arg_LINK})
endfunction()

# For the shared libraries that users' programs link: exports only the library's own names.
function(troupe_export_own_names library)
  set(names "${PROJECT_SOURCE_DIR}/troupe/exports.map")
  target_link_options(${library} PRIVATE -Wl,-Bsymbolic-functions "-Wl,--version-script=${names}")
  target_compile_features(${library} INTERFACE cxx_std_20)
  set_target_properties(${library} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS "${names}" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
endfunction()

function(troupe_test name)
  cmake_parse_arguments(arg "" "LABEL;OPTIMIZE" "LINK" ${ARGN})
  if(NOT DEFINED arg_OPTIMIZE)
    set(arg_OPTIMIZE 0)  # most tests take longer to compile than to run
  endif()
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE troupe_settings ${arg_LINK} GTest::gtest_main)
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O${arg_OPTIMIZE}>)
  if(TARGET troupe_cuda)
    add_dependencies(${name}_test troupe_cuda troupe_cuda_probe)
  endif()
  # Suites named ...Gpu need a device, and skip themselves without one; suites named ...Timing compare times.
  # Disabled tests are child processes of others: see tests/kernels/child_process.hpp.
  set(discovery TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60)
  gtest_discover_tests(${name}_test ${discovery} TEST_FILTER "-*Gpu.*:*Timing.*:*.DISABLED_*" TEST_LIST ${name}_tests
                       PROPERTIES TIMEOUT ${troupe_test_timeout} LABELS "${arg_LABEL}")
  gtest_discover_tests(${name}_test ${discovery} TEST_FILTER "*Gpu.*-*.DISABLED_*" TEST_LIST ${name}_gpu_tests
                       PROPERTIES TIMEOUT ${troupe_test_timeout} LABELS gpu)
  gtest_discover_tests(${name}_test ${discovery} TEST_FILTER "*Timing.*-*.DISABLED_*" TEST_LIST ${name}_timing_tests
                       PROPERTIES TIMEOUT ${troupe_test_timeout} LABELS timing RUN_SERIAL TRUE)
endfunction()

function(troupe_emulated_tests name)
  if(TARGET troupe_cuda_emulated)
    add_dependencies(${name}_test troupe_cuda_emulated)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}_emulated. DISCOVERY_TIMEOUT 60
                         TEST_FILTER "*Gpu.*-*.DISABLED_*" TEST_LIST ${name}_emulated_tests
                         PROPERTIES TIMEOUT ${troupe_test_timeout} LABELS emulated
                                    ENVIRONMENT "TROUPE_CUDA_MODULE=$<TARGET_FILE:troupe_cuda_emulated>")
  endif()
endfunction()
