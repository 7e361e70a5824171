// SPDX-License-Identifier: Apache-2.0
// Checks the files of a command before anything runs: no output may be an input or a file in an input folder, and no
// two outputs may be the same file. Files are compared on disk, not by spelling, so links, "./" and ".." hide nothing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "quant/file/atomic_file.h"

namespace tare {

// Names as on the command line; "" and "-" (standard output) are skipped. Throws Error for these conflicts, and if an
// output cannot be written: a missing folder, no permission, a folder or device of that name, or another process that
// writes it. The result keeps other processes from the outputs as long as it lives.
[[nodiscard]] std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs,
                                                 const std::vector<std::string>& outputs);

// The outputs, for ClaimFiles, of a command that writes these names into a folder. Empty if the folder does not exist
// yet: the command creates it, but not its parent. Throws Error if it could not be created.
std::vector<std::string> OutputsIn(const std::filesystem::path& folder, const std::vector<std::string>& names);

// As OutputsIn, for a folder that must not contain any of the files yet.
std::vector<std::string> NewFilesIn(const std::filesystem::path& folder, const std::vector<std::string>& names);

// Begins a new command: what an earlier one was going to make is forgotten.
void ForgetOutputs();

// "a/b" for "a/b/".
std::filesystem::path WithoutSlash(const std::filesystem::path& folder);

}  // namespace tare
