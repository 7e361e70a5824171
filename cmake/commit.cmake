# tare_commit(TARGET): kCommit of tools/program.cc is the commit that is built, or empty without git. Each build asks
# for it, and one source is compiled again when it changed. Run as a script with TARE_COMMIT_FILE, writes that source
# for the tree TARE_COMMIT_OF.
if(TARE_COMMIT_FILE)
  set(commit "")
  find_program(git git)
  if(git)
    # of this tree, not of one that it lies in
    execute_process(COMMAND ${git} -C ${TARE_COMMIT_OF} rev-parse --show-prefix --short=7 HEAD
                    OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND said MATCHES "^\n([0-9a-f]+)\n$")
      set(commit ${CMAKE_MATCH_1})
    endif()
  endif()
  file(CONFIGURE OUTPUT ${TARE_COMMIT_FILE} @ONLY CONTENT [=[
// Made by cmake/commit.cmake.
namespace tare {
extern const char kCommit[];
const char kCommit[] = "@commit@";
}  // namespace tare
]=])
  return()
endif()

function(tare_commit target)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/commit.cc)
  add_custom_target(${target}_commit COMMAND ${CMAKE_COMMAND} -DTARE_COMMIT_FILE=${source}
                    -DTARE_COMMIT_OF=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake
                    BYPRODUCTS ${source} COMMENT "" VERBATIM)
  set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
  target_sources(${target} PRIVATE ${source})
  add_dependencies(${target} ${target}_commit)
endfunction()
