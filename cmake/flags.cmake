# Warnings, sanitizers and the thread backend: one interface target that every layer links privately.
add_library(tare_flags INTERFACE)
target_compile_options(tare_flags INTERFACE -Wall -Wextra -Wshadow -Wundef -Wnon-virtual-dtor -Wimplicit-fallthrough
                       -Wno-missing-field-initializers)  # designated initialisers leave the rest at their defaults on purpose
if(TARE_WERROR)
  target_compile_options(tare_flags INTERFACE -Werror)
endif()
if(TARE_SANITIZE)
  target_compile_options(tare_flags INTERFACE -fsanitize=${TARE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tare_flags INTERFACE -fsanitize=${TARE_SANITIZE})
endif()
# No contraction of a*b+c: results are to be the same at every optimisation level; where an FMA is wanted, it is written.
target_compile_options(tare_flags INTERFACE -ffp-contract=off)

# ParallelFor is the only parallelism: how Eigen cuts its own depends on the number of threads, and with it the last bits.
target_compile_definitions(tare_flags INTERFACE EIGEN_DONT_PARALLELIZE)

# tare_layer(NAME [deps...]): a library of every source under this folder, with the alias tare::NAME.
function(tare_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(tare_${name} STATIC ${sources})
  add_library(tare::${name} ALIAS tare_${name})
  set_target_properties(tare_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(tare_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include/tare>)
  target_link_libraries(tare_${name} PUBLIC ${ARGN} PRIVATE $<BUILD_INTERFACE:tare_flags>)
endfunction()
