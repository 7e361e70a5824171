// SPDX-License-Identifier: Apache-2.0
#include "tools/files.h"

#include <map>
#include <memory>

#include "quant/base/error.h"
#include "quant/plan/plan.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

bool IsFile(const std::string& name) { return !name.empty() && name != "-"; }

// Whether both exist and are the same file on disk. Paths that cannot be examined are not the same.
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

// Where a file that is claimed will be, or a new folder.
fs::path PlaceOf(const fs::path& path) { return fs::weakly_canonical(fs::absolute(path)); }

// What this command is going to make.
struct Outputs {
  std::map<fs::path, std::string> folders;  // by their places: no file may have one of these names
  // To the end of the command: where it makes its folder is where this looked.
  std::vector<std::shared_ptr<const OpenFolder>> looked_at;
};

Outputs& Planned() {
  static Outputs outputs;
  return outputs;
}

// Whether the path, or the target of a link, is a folder; looked up from a folder above it that is held, if any.
bool IsFolder(const fs::path& path) { return OpenFolder::Of(path) != nullptr; }

}  // namespace

void ForgetOutputs() { Planned() = {}; }

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
  Planned().looked_at.push_back(OpenFolder::Of(FolderOf(path)));
  Planned().folders.emplace(PlaceOf(path), folder.string());
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

std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs) {
  std::vector<AtomicFile> claims;
  std::vector<std::string> read = GridFilesRead();
  read.insert(read.end(), inputs.begin(), inputs.end());
  std::map<fs::path, std::string> written = Planned().folders;
  for (const std::string& output : outputs) {
    if (!IsFile(output)) continue;
    for (const std::string& input : read) {
      if (IsFile(input)) CheckApart(input, output);
    }
    claims.emplace_back(output);
    const auto [other, is_new] = written.emplace(PlaceOf(claims.back().final_path()), output);
    if (!is_new)
      Fail("{}: two outputs of one command have this place (the other: {}); try another name", output, other->second);
  }
  return claims;
}

}  // namespace tare
