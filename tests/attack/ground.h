// SPDX-License-Identifier: Apache-2.0
// The campaign's material: a folder of small intact files of every kind that Tare reads, the commands that read each,
// and the commands that write. Names are relative to the folder, so two folders give the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/attack/process.h"
#include "tests/damage/damage.h"

namespace tare::attack {

using damage::Form;
using damage::Random;

// A file, and every command that reads it. place: where the damaged one goes, if not where the whole one is.
struct Subject {
  std::string file;
  Form form = Form::kBinary;
  std::vector<Words> readers;  // after the program; read-only but for out/
  std::string place = {};
  bool ours = false;  // Tare wrote it with checksums: damaged, it may be refused, but gives no other figure
};

// A command that writes into out/; run again after an interruption, it ends with the same bytes.
struct Job {
  Words command;
  std::string folder = {};  // that it makes, and refuses to write over: removed before it is run again
};

const std::vector<Subject>& Subjects();
const std::vector<Job>& Jobs();

// Makes the files in the folder with the program itself. Throws std::runtime_error where it fails.
void MakeGround(const std::filesystem::path& folder, const std::string& program, const std::filesystem::path& source);

// By path within the folder.
using Contents = std::map<std::string, std::string>;
Contents FilesIn(const std::filesystem::path& folder);

// A folder's files by size, time and identity: what a command may not change.
struct Mark {
  uintmax_t size = 0;
  int64_t time = 0;
  uint64_t inode = 0;
  friend bool operator==(const Mark&, const Mark&) = default;
};
std::map<std::string, Mark> MarksOf(const std::filesystem::path& folder);

}  // namespace tare::attack
