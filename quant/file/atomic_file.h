// SPDX-License-Identifier: Apache-2.0
// Files that are complete or absent. A new one is written under a temporary name in its final folder (output_folder.h),
// synced, renamed, and the folder synced; an existing file stays until then; the next file of that name removes what a
// kill left, and while one process writes a file another is refused. A link is followed: its target is replaced. The
// folder is opened once. A file that the run reads is refused (files_of_run.h). Records are appended by whole lines.
//
// Every failure is an Error with the final path, the system's reason and something to try.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "quant/file/output_folder.h"

namespace tare {

class AtomicFile {
 public:
  // Throws Error if the folder is missing or not writable, or if path exists and is an input or not a regular file.
  explicit AtomicFile(const std::filesystem::path& path);
  AtomicFile(AtomicFile&& other) noexcept = default;
  AtomicFile& operator=(AtomicFile&& other) = delete;
  ~AtomicFile();  // without Commit the temporary is removed

  void Write(std::string_view text);
  void WriteAt(int64_t offset, std::string_view bytes);  // from any thread
  void Commit();

  // The temporary file, for a library that writes by name.
  std::filesystem::path path() const;
  const std::filesystem::path& final_path() const { return final_; }

 private:
  void Claim();   // Throws Error where another process writes the file.
  void Create();  // the temporary, with a lock on it
  void Close();

  std::filesystem::path final_, absolute_;
  std::shared_ptr<const OpenFolder> folder_;
  std::string temporary_;  // its name in the folder
  int64_t end_ = 0;        // of what Write has written
  Descriptor fd_;          // none after Commit and in what was moved from
};

void WriteFileAtomically(const std::filesystem::path& path, std::string_view text);

// Appends a line (of no newline) and a newline in one write, and syncs. First removes a last line that a crash cut.
void AppendLine(const std::filesystem::path& path, std::string_view line);
// Whole lines without their newlines; none if the file is missing. A last line without a newline is dropped.
std::vector<std::string> ReadLines(const std::filesystem::path& path);

}  // namespace tare
