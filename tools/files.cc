// SPDX-License-Identifier: Apache-2.0
#include "tools/files.h"

#include <filesystem>
#include <map>

#include "quant/base/error.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

bool IsFile(const std::string& name) { return !name.empty() && name != "-"; }

// Both there, and the same on the disk. What cannot be looked at is not the same.
bool Same(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

void CheckApart(const std::string& input, const std::string& output) {
  std::error_code error;
  if (Same(input, output)) Fail("{}: is both an input and an output; try another name for the output", output);
  for (const fs::directory_entry& entry : fs::directory_iterator(input, error)) {
    if (Same(entry.path(), output))
      Fail("{}: is a file of the input {} and would be overwritten; try another output", output, input);
  }
}

// Of a link, of what it leads to, if to anything.
bool IsFolder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

}  // namespace

fs::path WithoutSlash(const fs::path& folder) {
  return folder.has_filename() || !folder.has_relative_path() ? folder : folder.parent_path();
}

std::vector<std::string> OutputsIn(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> outputs;
  if (IsFolder(folder)) {
    for (const std::string& name : names) outputs.push_back(folder / name);
    return outputs;
  }
  std::error_code error;
  const fs::path path = WithoutSlash(folder);
  if (fs::exists(fs::symlink_status(path, error)))
    Fail("{}: cannot write: a file, device or broken link has that name, expected a folder; try another name",
         path.string());
  const AtomicFile could_be_made(path);
  return {};
}

std::vector<std::string> NewFilesIn(const fs::path& folder, const std::vector<std::string>& names) {
  std::vector<std::string> outputs = OutputsIn(folder, names);
  for (const std::string& output : outputs) {
    std::error_code error;
    if (fs::exists(output, error)) Fail("{}: exists already and would be overwritten; try another --out", output);
  }
  return outputs;
}

void Passing::Remove() const {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void MoveFolder(const fs::path& from, const fs::path& to) {
  if (!fs::exists(to)) return fs::rename(from, to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from))
    fs::rename(entry.path(), to / entry.path().filename());
}

std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<AtomicFile> claims;
  std::map<fs::path, std::string> written;  // by where it will be
  for (const std::string& output : outputs) {
    if (!IsFile(output)) continue;
    for (const std::string& input : inputs) {
      if (IsFile(input)) CheckApart(input, output);
    }
    claims.emplace_back(output);
    const auto [other, is_new] =
        written.emplace(fs::weakly_canonical(fs::absolute(claims.back().final_path())), output);
    if (!is_new)
      Fail("{}: two outputs of one command are this file (the other: {}); try another name", output, other->second);
  }
  return claims;
}

}  // namespace tare
