// SPDX-License-Identifier: Apache-2.0
// Inputs as a command line names them: lists of files, and pipes, which are read like files, as often as needed.
//
// The bytes of a pipe are copied once into a file without a name, in the system's folder for temporary files or else in
// memory, which takes the pipe's place: only what opens files (mapped_file.h) knows of it, and nothing is left when the
// process ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tare {

// The file to open for a path: /dev/stdin for "-", otherwise the path itself. If it names an open pipe, terminal or
// socket of this process (/dev/stdin, or /dev/fd/63 of a shell's <(COMMAND)), or a named pipe, first copies it to its
// end. Throws Error if it cannot be read, Interrupted after RequestStop.
std::string FileOf(const std::string& path);

// The descriptor of the copy of the named pipe that fd has opened; -1 where there is none.
int CopyOfPipe(int fd);

// The names between the commas of a list; a comma written twice belongs to a name. An empty text is one empty name.
std::vector<std::string> SplitNames(std::string_view list);

}  // namespace tare
