// SPDX-License-Identifier: Apache-2.0
// What is said where a file or folder cannot be written: the final path, the system's reason and something to try.
#pragma once

#include <filesystem>

#include "quant/file/open_folder.h"

namespace tare {

// Throw Error. error: errno of the call that failed.
[[noreturn]] void FailToCreate(const std::filesystem::path& path, int error);
[[noreturn]] void FailToWrite(const std::filesystem::path& path, int error);  // begun, and not ended
// The folder that path would be in cannot be opened.
[[noreturn]] void FailToOpenFolderOf(const std::filesystem::path& path, int error);

// A new name in the folder lasts once the folder is synced. File systems that cannot sync a folder say EINVAL, which is
// no failure. Throws Error about path otherwise.
void SyncFolder(const OpenFolder& folder, const std::filesystem::path& path);

}  // namespace tare
