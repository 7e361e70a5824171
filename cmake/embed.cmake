# tare_embed(TARGET NAME=FILE...): the files' bytes become a part of the library, and Embedded(NAME) of
# experiments/report/drawing/interpreter.h finds them. Made again when one changes.
function(tare_embed target)
  set(blocks "")
  set(entries "")
  set(files "")
  set(number 0)
  foreach(entry ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.+)$" matched "${entry}")
    list(APPEND files "${CMAKE_MATCH_2}")
    string(APPEND blocks
           "    \"tare_file_${number}:\\n.incbin \\\"${CMAKE_MATCH_2}\\\"\\ntare_file_${number}_end:\\n.byte 0\\n\"\n")
    string(APPEND externs
           "extern const char file_${number}[] asm(\"tare_file_${number}\"), "
           "file_${number}_end[] asm(\"tare_file_${number}_end\");\n")
    string(APPEND entries
           "    {\"${CMAKE_MATCH_1}\", {file_${number}, static_cast<size_t>(file_${number}_end - file_${number})}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.cc)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [=[
// Made by cmake/embed.cmake: files as bytes, each with a NUL after it.
#include "experiments/report/drawing/interpreter.h"

#include "quant/base/message.h"

asm(".section .rodata\n"
@blocks@    ".previous\n");

namespace tare {

#pragma GCC visibility push(hidden)
@externs@#pragma GCC visibility pop

namespace {

struct File {
  std::string_view name, bytes;
};

}  // namespace

std::string_view Embedded(std::string_view name) {
  static const File files[] = {
@entries@  };
  for (const File& file : files) {
    if (file.name == name) return file.bytes;
  }
  Fail("{}: got nothing of that name in the program", name);
}

}  // namespace tare
]=])
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${files}" SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE ${source})
endfunction()
