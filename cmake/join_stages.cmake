# cmake -DOUT=FILE -DSOURCES=a.cc;b.cc -P join_stages.cmake: sources that Highway compiles once for each instruction
# set, as one source of that kind: Highway's headers are then read once for each set. What a source has for each set
# stands in its own namespace inside Highway's, so two sources may use one name; HWY_EXPORT finds it there. Compilers
# still name the file and line that were written.
set(joined "// Made of the sources below by cmake/join_stages.cmake.\n")
string(APPEND joined "#define HWY_TARGET_INCLUDE \"${OUT}\"\n")
string(APPEND joined "#include \"hwy/foreach_target.h\"\n#include \"hwy/highway.h\"\n")
set(number 0)
foreach(source ${SOURCES})
  math(EXPR number "${number} + 1")
  file(READ ${source} text)
  string(REGEX REPLACE "#(undef|define) HWY_TARGET_INCLUDE[^\n]*" "" text "${text}")
  string(REGEX REPLACE "#include \"hwy/foreach_target.h\"[^\n]*" "" text "${text}")
  string(REPLACE "\nnamespace HWY_NAMESPACE {\n" "\nnamespace HWY_NAMESPACE::part_${number} {\n" apart "${text}")
  if(apart STREQUAL text)
    message(FATAL_ERROR "${source}: got no line 'namespace HWY_NAMESPACE {', expected one after foreach_target.h")
  endif()
  string(REGEX REPLACE "HWY_EXPORT\\(([A-Za-z0-9_]+)\\)" "HWY_EXPORT_T(\\1, part_${number}::\\1)" apart "${apart}")
  string(APPEND joined "#line 1 \"${source}\"\n${apart}\n")
endforeach()
file(WRITE ${OUT} "${joined}")
