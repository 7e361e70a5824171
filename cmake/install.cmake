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

# For builds without CMake. What dnnl and hwy are linked with they bring themselves.
function(tare_pkg_config component links)
  set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  file(RELATIVE_PATH up /prefix/${pkgconfig} /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  file(CONFIGURE OUTPUT ${made_here}/tare-${component}.pc @ONLY CONTENT "prefix=\${pcfiledir}/@up@
Name: tare-@component@
Description: ${PROJECT_DESCRIPTION}
Version: ${PROJECT_VERSION}
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/${CMAKE_INSTALL_LIBDIR} @links@ -lgomp -pthread
")
  install(FILES ${made_here}/tare-${component}.pc DESTINATION ${pkgconfig})
endfunction()
tare_pkg_config(numbers -ltare_numbers)
if(kernels IN_LIST tare_built)
  tare_pkg_config(kernels "-ltare_kernels -ltare_numbers -ldnnl -lhwy")
endif()

foreach(component ${tare_built})
  install(TARGETS tare_${component} EXPORT tare-${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          FILE_SET HEADERS DESTINATION include/tare)
  install(EXPORT tare-${component} NAMESPACE tare:: DESTINATION ${folder})
endforeach()
# Headers find each other below tare/ alone: a project may have a quant/ or kernels/ of its own.
install(CODE "file(GLOB_RECURSE headers \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/include/tare/*.h\")
foreach(header \${headers})
  file(READ \"\${header}\" text)
  string(REGEX REPLACE \"(#include \\\")((quant|kernels|experiments)/)\" \"\\\\1tare/\\\\2\" text \"\${text}\")
  file(WRITE \"\${header}\" \"\${text}\")
endforeach()")
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
