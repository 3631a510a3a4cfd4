# The files that `cmake --install` installs, by component:
#
#   runtime      the program, the shared library, the manual page, the completion, licences
#   cuda         the modules of the CUDA backend, if they were built
#   development  headers, and the files of find_package(troupe)
#
# They may be moved together: none contains the prefix.

include(CMakePackageConfigHelpers)

# The manual page is generated from the program's help.
set(troupe_manual "${CMAKE_BINARY_DIR}/troupe.1")
add_custom_command(OUTPUT "${troupe_manual}"
  COMMAND "${CMAKE_COMMAND}" -E env COLUMNS=120 awk -v "program=$<TARGET_FILE:troupe>" -v "version=${PROJECT_VERSION}"
          -f "${PROJECT_SOURCE_DIR}/apps/man/page.awk" "${PROJECT_SOURCE_DIR}/apps/man/troupe.1.in" > "${troupe_manual}"
  DEPENDS troupe apps/man/page.awk apps/man/troupe.1.in VERBATIM)
add_custom_target(troupe_man ALL DEPENDS "${troupe_manual}")

set(troupe_cmake_folder "${CMAKE_INSTALL_LIBDIR}/cmake/troupe")

install(TARGETS troupe RUNTIME COMPONENT runtime)
install(TARGETS troupe_shared troupe_program EXPORT troupe
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
  INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(FILES "${troupe_manual}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT runtime)
install(FILES apps/shell/troupe.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME troupe
  COMPONENT runtime)
install(FILES tools/cmake/copyright DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT runtime)

if(TARGET troupe_cuda)  # only the target `all` builds both
  install(FILES $<TARGET_FILE:troupe_cuda> $<TARGET_FILE:troupe_cuda_probe>
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/troupe" COMPONENT cuda OPTIONAL)
endif()

install(CODE "set(SOURCE \"${PROJECT_SOURCE_DIR}\")\nset(BINARY \"${CMAKE_BINARY_DIR}\")
set(INCLUDES \"${CMAKE_INSTALL_INCLUDEDIR}\")" COMPONENT development)
install(SCRIPT tools/cmake/public_headers.cmake COMPONENT development)
install(EXPORT troupe NAMESPACE troupe:: FILE troupeConfig.cmake DESTINATION "${troupe_cmake_folder}"
  COMPONENT development)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/troupeConfigVersion.cmake" DESTINATION "${troupe_cmake_folder}"
  COMPONENT development)
