// SPDX-License-Identifier: Apache-2.0
// Checks the files of a command before anything runs: no output may be an input or a file in an input folder, and no
// two outputs may be the same file. Files are compared on disk, not by spelling: links, "./" and ".." do not hide
// it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "quant/file/atomic_file.h"

namespace tare {

// Names as the command line has them; "" and "-" (standard output) are passed over. Throws Error for the above, and
// where an output cannot be written: a missing folder, no permission, a folder or device of that name, or another
// process that writes it. What is returned keeps other processes from the outputs for as long as it lives.
[[nodiscard]] std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs,
                                                 const std::vector<std::string>& outputs);

// The outputs, for ClaimFiles, of a command that writes these names into a folder: none in a folder that is not there
// yet, which the command makes, but not the folder that it goes into. Throws Error where it could not be made.
std::vector<std::string> OutputsIn(const std::filesystem::path& folder, const std::vector<std::string>& names);

// The same, of a folder that must hold none of the files yet.
std::vector<std::string> NewFilesIn(const std::filesystem::path& folder, const std::vector<std::string>& names);

// What is made beside its final place and goes away at the end, also what a kill left there before.
class Passing {
 public:
  explicit Passing(std::filesystem::path path) : path_(std::move(path)) { Remove(); }
  Passing(const Passing&) = delete;
  ~Passing() { Remove(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  void Remove() const;
  std::filesystem::path path_;
};

// A new folder comes whole; one that is there, without any of these files, gets them one by one.
void MoveFolder(const std::filesystem::path& from, const std::filesystem::path& to);

// "a/b" for "a/b/".
std::filesystem::path WithoutSlash(const std::filesystem::path& folder);

}  // namespace tare
