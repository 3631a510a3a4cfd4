# troupe_room(NAME LINK target...): the library of one folder, from all its sources.
# troupe_test(NAME LINK target...): the test program of one folder, from all sources of the current one.

function(troupe_room name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  add_library(troupe_${name} STATIC ${sources})
  target_link_libraries(troupe_${name} PUBLIC troupe_settings ${arg_LINK})
endfunction()

function(troupe_test name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE troupe_settings ${arg_LINK} GTest::gtest_main)
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
