# cmake --install: the components with their public headers under include/tare, a file of targets for each, and the
# program with its pages. Benchmarks and all other headers stay here.
include(CMakePackageConfigHelpers)
set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/tare)
set(pages ${CMAKE_BINARY_DIR}/pages)
set(made_here ${CMAKE_BINARY_DIR}/package)  # where find_package does not look, should the build folder be in PATH

# The whole of it or nothing: first of all rules.
set(needed $<TARGET_FILE:tare_${TARE_COMPONENT}>)
if(TARE_TOOLS)
  list(APPEND needed $<TARGET_FILE:tare> ${pages}/tare.1 ${pages}/tare ${pages}/_tare ${pages}/tare.fish)
endif()
install(CODE "foreach(file ${needed})
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"tare: \${file} is not built; nothing was installed; try \"
            \"cmake --build ${CMAKE_BINARY_DIR} --target tare tare_pages\")
  endif()
endforeach()")

foreach(component ${tare_built})
  install(TARGETS tare_${component} EXPORT tare-${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          FILE_SET HEADERS DESTINATION include/tare)
  install(EXPORT tare-${component} NAMESPACE tare:: DESTINATION ${folder})
endforeach()
if(TARE_TOOLS)
  install(TARGETS tare RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  # What the program says of itself.
  function(tare_page file)
    add_custom_command(OUTPUT ${pages}/${file} COMMAND ${CMAKE_COMMAND} -DOUT=${pages}/${file}
                       "-DCOMMAND=$<TARGET_FILE:tare>;${ARGN}"
                       -P ${PROJECT_SOURCE_DIR}/cmake/page.cmake DEPENDS tare cmake/page.cmake VERBATIM)
  endfunction()
  tare_page(tare.1 manual)
  tare_page(tare completion bash)
  tare_page(_tare completion zsh)
  tare_page(tare.fish completion fish)
  add_custom_target(tare_pages ALL DEPENDS ${pages}/tare.1 ${pages}/tare ${pages}/_tare ${pages}/tare.fish)
  install(FILES ${pages}/tare.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/tare DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/tare.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  install(FILES ${pages}/_tare DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
endif()
configure_package_config_file(cmake/tare-config.cmake.in ${made_here}/tare-config.cmake INSTALL_DESTINATION ${folder})
write_basic_package_version_file(${made_here}/tare-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${made_here}/tare-config.cmake ${made_here}/tare-config-version.cmake cmake/dependencies.cmake
        DESTINATION ${folder})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
