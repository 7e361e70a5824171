# cmake --install: the components with their public headers under include/tare, a file of targets for each, and the program. Benchmarks and
# all other headers stay here.
include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/tare)
foreach(component numbers files kernels experiments)
  install(TARGETS tare_${component} EXPORT tare-${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          FILE_SET HEADERS DESTINATION include/tare)
  install(EXPORT tare-${component} NAMESPACE tare:: DESTINATION ${folder})
endforeach()
if(TARE_TOOLS)
  install(TARGETS tare RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
configure_package_config_file(cmake/tare-config.cmake.in ${CMAKE_BINARY_DIR}/tare-config.cmake INSTALL_DESTINATION ${folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tare-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tare-config.cmake ${CMAKE_BINARY_DIR}/tare-config-version.cmake cmake/dependencies.cmake DESTINATION ${folder})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
