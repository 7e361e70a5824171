# Warnings, sanitizers and the thread backend: one interface target that every library links privately.
add_library(tare_flags INTERFACE)
target_compile_options(tare_flags INTERFACE -Wall -Wextra -Wshadow -Wundef -Wnon-virtual-dtor -Wimplicit-fallthrough
                       # designated initialisers leave the rest at their defaults on purpose
                       -Wno-missing-field-initializers)
if(TARE_WERROR)
  target_compile_options(tare_flags INTERFACE -Werror)
endif()
if(TARE_SANITIZE)
  target_compile_options(tare_flags INTERFACE -fsanitize=${TARE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(tare_flags INTERFACE -fsanitize=${TARE_SANITIZE})
endif()
# No contraction of a*b+c: results are to be the same at every optimisation level; where an FMA is wanted, it is
# written.
target_compile_options(tare_flags INTERFACE -ffp-contract=off)

# ParallelFor is the only parallelism: how Eigen cuts its own depends on the number of threads, and with it the last
# bits.
target_compile_definitions(tare_flags INTERFACE EIGEN_DONT_PARALLELIZE)

# Where everything is compiled, CMAKE_UNITY_BUILD=ON compiles a folder's sources as one, ten at most, whose headers are
# then read once: a third of the time. So what a source keeps to itself has a name of its own in its folder. Alone stay
# sources that Highway compiles once for each instruction set, and those named by tare_alone.
function(tare_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(tare_join_folders name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source ${ARGN})
    file(STRINGS ${source} highway REGEX foreach_target.h LIMIT_COUNT 1)
    if(highway)
      tare_alone(${source})
    else()
      cmake_path(GET source PARENT_PATH folder)
      list(APPEND ${folder} ${source})
      list(LENGTH ${folder} count)
      math(EXPR ten "(${count} - 1) / 10")
      cmake_path(GET folder FILENAME group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${ten})
    endif()
  endforeach()
endfunction()

# tare_library(NAME FOLDERS folder...): a library of every source in these folders, tare_NAME and tare::NAME.
function(tare_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS")
  list(TRANSFORM arg_FOLDERS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cc" OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  add_library(tare_${name} STATIC ${sources})
  tare_join_folders(tare_${name} ${sources})
  add_library(tare::${name} ALIAS tare_${name})
  set_target_properties(tare_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_compile_features(tare_${name} PUBLIC cxx_std_23)
  target_include_directories(tare_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(tare_${name} PRIVATE $<BUILD_INTERFACE:tare_flags>)
  # error.h needs it, and so does every source: a third of a small one's time
  target_precompile_headers(tare_${name} PRIVATE <format>)
endfunction()

# tare_public(NAME header...): what of the library others may include; every other header stays in the tree. Names may
# have a *. What a public header includes is public too (tests/install compiles each by itself).
function(tare_public name)
  foreach(pattern ${ARGN})
    file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${pattern})
    if(NOT headers)
      message(FATAL_ERROR
              "tare_public(${name} ...): got no header ${CMAKE_CURRENT_SOURCE_DIR}/${pattern}; was it moved?")
    endif()
    target_sources(tare_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${headers})
  endforeach()
endfunction()
