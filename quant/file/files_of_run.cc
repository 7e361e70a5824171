// SPDX-License-Identifier: Apache-2.0
#include "quant/file/files_of_run.h"

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "quant/base/message.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

struct Noted {
  std::mutex mutex;
  bool running = false;
  std::map<FileIdentity, std::string> inputs;  // and the folder that was named instead; "" for a file
  std::map<fs::path, std::pair<FileIdentity, std::string>> outputs;  // with the name that was given
  std::set<FileIdentity> own;
};

Noted& AllNoted() {
  static Noted noted;
  return noted;
}

[[noreturn]] void Refuse(const std::string& output, const std::string& folder) {
  if (folder.empty()) Fail("{}: is both an input and an output; try another name for the output", output);
  Fail("{}: is a file of the input {} and would be overwritten; try another output", output, folder);
}

FileIdentity FileAt(const fs::path& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? IdentityOf(status) : FileIdentity();
}

void Note(Noted& noted, const FileIdentity& file, const std::string& folder) {
  if (!noted.running || file == FileIdentity() || noted.own.contains(file)) return;
  for (const auto& [absolute, output] : noted.outputs) {
    if (output.first == file) Refuse(output.second, folder);
  }
  std::string& named = noted.inputs[file];
  if (named.empty()) named = folder;
}

}  // namespace

FilesOfRun::FilesOfRun() {
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  noted.running = true;
}

FilesOfRun::~FilesOfRun() {
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  noted.running = false;
  noted.inputs.clear();
  noted.outputs.clear();
  noted.own.clear();
}

void NoteInput(const fs::path& path) {
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  Note(noted, FileAt(path), "");
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    Note(noted, FileAt(entry.path()), path.string());
}

void NoteOpened(const FileIdentity& file) {
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  Note(noted, file, "");
}

void NoteOutput(const FileIdentity& file, const fs::path& absolute, const fs::path& path) {
  RefuseInput(file, path);
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  if (file != FileIdentity()) noted.outputs[absolute] = {file, path.string()};
}

void ForgetOutput(const fs::path& absolute) {
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  noted.outputs.erase(absolute);
}

void RefuseInput(const FileIdentity& file, const fs::path& path) {
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  const auto input = noted.inputs.find(file);
  if (input != noted.inputs.end()) Refuse(path.string(), input->second);
}

void TakeForOwn(const fs::path& path) {
  const FileIdentity file = FileAt(path);
  RefuseInput(file, path);
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  if (noted.running && file != FileIdentity()) noted.own.insert(file);
}

// The system may give a new file the inode of an input that somebody removed.
void NoteMade(int fd) {
  struct stat status{};
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  if (!noted.running || fstat(fd, &status) != 0) return;
  noted.inputs.erase(IdentityOf(status));
  noted.own.insert(IdentityOf(status));
}

bool IsInput(int folder, const char* name) {
  struct stat status{};
  Noted& noted = AllNoted();
  const std::scoped_lock lock(noted.mutex);
  return fstatat(folder, name, &status, 0) == 0 && noted.inputs.contains(IdentityOf(status));
}

}  // namespace tare
