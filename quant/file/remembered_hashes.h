// SPDX-License-Identifier: Apache-2.0
// SHA-256 of large files, remembered from one run to the next: 14 GB of weights take 7 s at 2 GB/s, and a minute and a
// half from a disk, before a question that may take one second.
//
// A file is unchanged while its device, inode, size and times of change are what they were when it was hashed; of these
// times no program can set ctime. A file that changed less than two seconds before it was opened is not remembered: a
// clock that ticks seldom may give its next change the same time. What is remembered is one small file per hash, with a
// hash of its own (checked_lines.h); one that is missing, damaged or cannot be written costs time and no more.
#pragma once

#include <filesystem>
#include <string>

#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"

namespace tare {

// Where hashes are remembered from now on, in the whole process; an empty path, or no call: nowhere. The folder is made
// when it is needed.
void RememberHashesIn(const std::filesystem::path& folder);

// Files of fewer bytes are hashed each time: 64 MiB take 30 ms.
inline constexpr size_t kRememberedSize = size_t{64} << 20;

// Sha256Hex of the whole file; with `read` it is read in any case, and its hash remembered too.
std::string HashOfFile(const MappedFile& file, const FileRead& read = {});

}  // namespace tare
