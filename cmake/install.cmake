# cmake --install: headers under include/tare, the layers as tare::quant, tare::kernels and tare::experiments. Headers that only sources of
# ours include (for them one needs HDF5's or Highway's own) stay here.
include(CMakePackageConfigHelpers)
install(TARGETS tare_quant tare_kernels tare_experiments EXPORT tare-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(layer quant kernels experiments)
  install(DIRECTORY ${layer} DESTINATION include/tare FILES_MATCHING PATTERN "*.h" PATTERN "pair" EXCLUDE
          PATTERN "*-inl.h" EXCLUDE PATTERN "hdf5_handle.h" EXCLUDE)
endforeach()
if(TARE_TOOLS)
  install(TARGETS tare RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(EXPORT tare-targets NAMESPACE tare:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tare)
configure_package_config_file(cmake/tare-config.cmake.in ${CMAKE_BINARY_DIR}/tare-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tare)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tare-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tare-config.cmake ${CMAKE_BINARY_DIR}/tare-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tare)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
