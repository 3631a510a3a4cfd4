# CAF's build includes this file when tools/setup.sh compiles CAF, many sources in one unit. The sizes keep two cores
# busy to the end: core's units are compiled before io's.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 22)
cmake_language(DEFER CALL set_property TARGET libcaf_io PROPERTY UNITY_BUILD_BATCH_SIZE 12)

# These two define the same names as their neighbours, so each stays a unit of its own.
cmake_language(DEFER CALL set_property
  SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/libcaf_core/src/binary_serializer.cpp" DIRECTORY libcaf_core
  PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
cmake_language(DEFER CALL set_property
  SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/libcaf_io/src/io/network/native_socket.cpp" DIRECTORY libcaf_io
  PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
