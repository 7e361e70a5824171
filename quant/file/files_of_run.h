// SPDX-License-Identifier: Apache-2.0
// The files of a run: what it reads and writes, and how a command line names them.
//
// Every file that a run reads is noted where it is opened (mapped_file.h), or where a command names it. All that
// writes, appends or removes asks here first: what a run reads is neither replaced nor removed, and what it is going to
// write is not read. Device and inode identify a file, so links, hard links and other spellings hide nothing.
//
// A run's own files it may read and change: those that it made, and what it takes up from an earlier run (finished
// cells, parts, remembered hashes). Nothing is noted without a FilesOfRun: a library does not know where a run ends.
//
// Inputs are lists of files, and pipes, which are read like files, as often as needed. The bytes of a pipe are copied
// once into a file without a name, in the system's folder for temporary files or else in memory, which takes the pipe's
// place: only what opens files (mapped_file.h) knows of it, and nothing is left when the process ends.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tare {

// From its making to its end: one run, in the whole process.
class FilesOfRun {
 public:
  FilesOfRun();
  ~FilesOfRun();
  FilesOfRun(const FilesOfRun&) = delete;
};

// Device and inode; zeros of what is not there.
using FileIdentity = std::pair<uint64_t, uint64_t>;
inline FileIdentity IdentityOf(const struct stat& status) { return {status.st_dev, status.st_ino}; }

// All throw Error where one file would be both an input and an output.
void NoteInput(const std::filesystem::path& path);  // a file, or a folder with the files in it, if it is there
void NoteOpened(const FileIdentity& file);          // for reading
// That is there and will be replaced; absolute: the place by which it is forgotten again.
void NoteOutput(const FileIdentity& file, const std::filesystem::path& absolute, const std::filesystem::path& path);
void ForgetOutput(const std::filesystem::path& absolute);
void RefuseInput(const FileIdentity& file, const std::filesystem::path& path);
// Takes a file that is there for the run's own.
void TakeForOwn(const std::filesystem::path& path);
void NoteMade(int fd);  // by the run

// Whether the name in a folder is an input.
bool IsInput(int folder, const char* name);

// The file to open for a path: /dev/stdin for "-", else itself. First copies an open pipe, terminal or socket of ours
// (/dev/stdin, /dev/fd/63 of <(COMMAND)), or a named pipe. Throws Error if unreadable, Interrupted after RequestStop.
std::string FileOf(const std::string& path);

// The descriptor of the copy of the named pipe that fd has opened; -1 where there is none.
int CopyOfPipe(int fd);

// The names between the commas of a list; a comma written twice belongs to a name. An empty text is one empty name.
std::vector<std::string> SplitNames(std::string_view list);

}  // namespace tare
