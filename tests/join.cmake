# cmake -DOUT=FILE -DSOURCES=a.cc;b.cc -P join.cmake: tests as one source, each in a namespace of its own inside tare,
# so that helpers of two tests may have one name. Compilers and sanitizers still name the file and line that were
# written.
set(joined "// Made of the tests below by tests/join.cmake.\n")
set(number 0)
foreach(source ${SOURCES})
  math(EXPR number "${number} + 1")
  file(READ ${source} text)
  string(REPLACE "\nnamespace tare {\n" "\nnamespace tare::test_${number} {\n" in_own_namespace "${text}")
  if(in_own_namespace STREQUAL text)
    message(FATAL_ERROR "${source}: got no line 'namespace tare {', expected one around the tests")
  endif()
  string(APPEND joined "#line 1 \"${source}\"\n${in_own_namespace}\n")
endforeach()
file(WRITE ${OUT} "${joined}")
