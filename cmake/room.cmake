# troupe_room(NAME LINK target...): the library of one folder, from all its sources.
# troupe_test(NAME [LABEL label] LINK target...): the test program of one folder, from all sources of the current one.

function(troupe_room name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  add_library(troupe_${name} STATIC ${sources})
  target_link_libraries(troupe_${name} PUBLIC troupe_settings ${arg_LINK})
endfunction()

function(troupe_test name)
  cmake_parse_arguments(arg "" "LABEL" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE troupe_settings ${arg_LINK} GTest::gtest_main)
  # Suites named ...Gpu need a device, and skip themselves where there is none; those named ...Timing promise times.
  set(discovery TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60)
  gtest_discover_tests(${name}_test ${discovery} TEST_FILTER "-*Gpu.*:*Timing.*" TEST_LIST ${name}_tests
                       PROPERTIES TIMEOUT 300 LABELS "${arg_LABEL}")
  gtest_discover_tests(${name}_test ${discovery} TEST_FILTER "*Gpu.*" TEST_LIST ${name}_gpu_tests
                       PROPERTIES TIMEOUT 300 LABELS gpu)
  gtest_discover_tests(${name}_test ${discovery} TEST_FILTER "*Timing.*" TEST_LIST ${name}_timing_tests
                       PROPERTIES TIMEOUT 300 LABELS timing)
endfunction()
