# Warnings, sanitizers and hardening: one interface target that every library links privately.
add_library(tare_flags INTERFACE)
target_compile_options(tare_flags INTERFACE -Wall -Wextra -Wshadow -Wundef -Wnon-virtual-dtor -Wimplicit-fallthrough
                       # designated initialisers leave the rest at their defaults on purpose
                       -Wno-missing-field-initializers
                       # g++ for arm64 notes each pair of doubles that is passed as it was not before g++ 10
                       -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # its garbage collected from 512 MiB on, not from 128: 8% less to compile
  target_compile_options(tare_flags INTERFACE --param=ggc-min-heapsize=524288)
endif()
if(TARE_WERROR AND NOT TARE_SANITIZE)  # with sanitizers g++ warns of uninitialised values falsely, as its manual says
  target_compile_options(tare_flags INTERFACE -Werror)
endif()
if(TARE_SANITIZE)
  target_compile_options(tare_flags INTERFACE -fsanitize=${TARE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(tare_flags INTERFACE -fsanitize=${TARE_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)  # as g++ says it
    foreach(sanitizer address thread)
      if(TARE_SANITIZE MATCHES ${sanitizer})
        string(TOUPPER ${sanitizer} name)
        target_compile_definitions(tare_flags INTERFACE __SANITIZE_${name}__)
      endif()
    endforeach()
  endif()
endif()
# At every use of an address UBSan checks that it is not null, is aligned, lies in its object and did not wrap. These
# checks are a quarter to a third of the time that a sanitized source takes to compile, so only the fuzzers ask them,
# of raw bytes; elsewhere bad addresses are left to the address sanitizer.
if(TARE_SANITIZE MATCHES undefined AND NOT TARE_SANITIZE MATCHES fuzzer)
  target_compile_options(tare_flags INTERFACE -fno-sanitize=null,alignment,object-size,pointer-overflow)
  # UBSan's messages are tables of pointers; a position-independent program relocates 1.8 million of them at its start.
  target_link_options(tare_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-no-pie>)
endif()
# TARE_HARDEN: a fault in memory ends the program where it happens. Sanitizers find more, and do not go with
# _FORTIFY_SOURCE. Whoever names one of these in CMAKE_CXX_FLAGS or CMAKE_EXE_LINKER_FLAGS, as Debian's dpkg-buildflags
# do, has it as named there; a flag that the compiler does not take is left out. tests/install/hardened.sh reads the
# result.
option(TARE_HARDEN "checks of the C++ library, stack protector, _FORTIFY_SOURCE, relro and control-flow protection" ON)
set(tare_hardened "")  # those that this build has
if(TARE_HARDEN AND NOT TARE_SANITIZE)
  include(CheckCXXCompilerFlag)
  include(CheckCXXSourceCompiles)
  include(CheckLinkerFlag)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" configuration)
  set(given "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${configuration}} ${CMAKE_EXE_LINKER_FLAGS}")

  # It needs an optimising compiler, or every source has a warning; some compilers define it themselves.
  set(CMAKE_TRY_COMPILE_CONFIGURATION "${CMAKE_BUILD_TYPE}")
  unset(TARE_FORTIFIES CACHE)  # the flags may have changed
  check_cxx_source_compiles("#if !defined(__OPTIMIZE__) || defined(_FORTIFY_SOURCE)
                             #error
                             #endif
                             int main() {}" TARE_FORTIFIES)
  unset(CMAKE_TRY_COMPILE_CONFIGURATION)
  if(TARE_FORTIFIES)
    target_compile_options(tare_flags INTERFACE -D_FORTIFY_SOURCE=3)
    list(APPEND tare_hardened FORTIFY_SOURCE)
  endif()
  foreach(flag -D_GLIBCXX_ASSERTIONS -fstack-protector-strong -fcf-protection -mbranch-protection=standard
          -Wl,-z,relro -Wl,-z,now)
    string(REGEX REPLACE "^(-D_|-f|-m|-Wl,-z,)|-strong$|=standard$" "" name ${flag})
    if(NOT given MATCHES "${name}")
      string(MAKE_C_IDENTIFIER "TARE_TAKES_${name}" takes)
      if(flag MATCHES "^-Wl")
        check_linker_flag(CXX ${flag} ${takes})
      else()
        check_cxx_compiler_flag(${flag} ${takes})
      endif()
      if(${takes})
        list(APPEND tare_hardened ${name})
        if(flag MATCHES "^-Wl")
          target_link_options(tare_flags INTERFACE ${flag})
        else()
          target_compile_options(tare_flags INTERFACE ${flag})
        endif()
      endif()
    endif()
  endforeach()
endif()

# No contraction of a*b+c: results are to be the same at every optimisation level; where an FMA is wanted, it is
# written.
target_compile_options(tare_flags INTERFACE -ffp-contract=off)

# Of targets that compute nothing measured (the command, the report): -O3 takes a third longer to compile, and
# sanitized -O1 half longer than -O0.
set(tare_no_measured_path $<$<CONFIG:Release>:-O1>)
if(TARE_SANITIZE)
  set(tare_no_measured_path -O0)
endif()

# ParallelFor is the only parallelism: how Eigen cuts its own depends on the number of threads, and with it the last
# bits.
target_compile_definitions(tare_flags INTERFACE EIGEN_DONT_PARALLELIZE)

# CMAKE_UNITY_BUILD=ON compiles the sources of a layer's folder, with those below it, as one: eight of
# experiments/passes take 16.5 s of processor time one by one and 5.1 s as one (g++ 14, -O3). So what a source keeps to
# itself has a name of its own in its layer's folder. A source that Highway compiles for each instruction set stays
# alone. JSON is compared as text: where it is compared with a literal, g++ 14 -O3 then sees reads out of bounds.
function(tare_join_folders)
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
    string(REGEX MATCH "^[^/]+/[^/]+" folder ${folder})
    string(MAKE_C_IDENTIFIER ${folder} group)
    file(STRINGS ${source} alone REGEX foreach_target.h LIMIT_COUNT 1)
    if(NOT alone)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()

# tare_library(NAME FOLDERS folder...): a library of every source in these folders, tare_NAME and tare::NAME.
function(tare_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FOLDERS")
  list(TRANSFORM arg_FOLDERS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*.cc" OUTPUT_VARIABLE patterns)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
  add_library(tare_${name} STATIC ${sources})
  tare_join_folders(${sources})
  add_library(tare::${name} ALIAS tare_${name})
  # Hidden: what links Tare into a library of its own exports none of it.
  set_target_properties(tare_${name} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON
                        UNITY_BUILD_MODE GROUP CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_features(tare_${name} PRIVATE cxx_std_23 INTERFACE cxx_std_20)
  target_include_directories(tare_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                             INTERFACE $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include> $<INSTALL_INTERFACE:include>)
  target_link_libraries(tare_${name} PRIVATE $<BUILD_INTERFACE:tare_flags>)
  # What most sources include: message.h needs <format>, a third of a small source's time; the others are a twelfth.
  target_precompile_headers(tare_${name} PRIVATE <algorithm> <filesystem> <format> <functional> <map> <memory>
                            <optional> <set> <span> <string> <vector>)
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
