// SPDX-License-Identifier: Apache-2.0
#include "quant/file/checkpoint_files.h"

#include <algorithm>
#include <ranges>
#include <set>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/json.h"
#include "quant/file/remembered_hashes.h"
#include "quant/file/tensor_names.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

// A path that cannot be examined counts as missing.
bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool HasPickle(const fs::path& folder) {
  std::error_code error;
  return std::ranges::any_of(fs::directory_iterator(folder, error),
                             [](const fs::directory_entry& entry) { return HasPickleName(entry.path()); });
}

[[noreturn]] void FailWithoutWeights(const fs::path& folder) {
  Fail("{}: has neither {} nor {}; {}", folder.string(), kSingle, kIndex,
       HasPickle(folder) ? "pickle checkpoints (*.bin, *.pt) are not supported; try converting it with "
                           "save_pretrained(folder, safe_serialization=True)"
                         : "try downloading the checkpoint again");
}

// A shard must be in the checkpoint's own folder.
void CheckShardName(const std::string& name, const std::string& where) {
  const bool plain =
      !name.empty() && name.find_first_of(std::string_view("/\\\0", 3)) == name.npos && name.find("..") == name.npos;
  if (!plain) Fail("{}: expected shards named without '/' and '..', got '{}'", where, name);
}

// tensor -> shard
std::map<std::string, std::string> ReadIndex(const fs::path& path) {
  const nlohmann::json index = ReadJson(path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    Fail("{}: has no object 'weight_map'; try downloading it again", path.string());
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      Fail("{}: weight_map: '{}': got {}, expected a file name", path.string(), tensor, shard.type_name());
    CheckShardName(shard.get<std::string>(), path.string());
    shards.emplace(tensor, shard.get<std::string>());
  }
  return shards;
}

std::vector<Safetensors> OpenShards(const fs::path& folder, const std::map<std::string, std::string>& shard_of) {
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shard_of) names.insert(shard);
  std::vector<Safetensors> files;
  for (const std::string& name : names) {
    if (!IsThere(folder / name)) {
      Fail("{}: no such file, but {} names it; try downloading the checkpoint again", (folder / name).string(), kIndex);
    }
    files.emplace_back(folder / name);
  }
  return files;
}

void CheckAgainstIndex(const std::vector<Safetensors>& files, const std::map<std::string, std::string>& shard_of,
                       const std::string& where) {
  std::map<std::string_view, std::string> seen;  // tensor -> shard
  for (const Safetensors& file : files) {
    const std::string shard = file.file().path().filename().string();
    for (const TensorView& tensor : file.tensors()) {
      const auto [before, is_new] = seen.emplace(tensor.name, shard);
      if (!is_new)
        Fail("{}: tensor '{}': occurs twice, in {} and in {}; try saving the checkpoint again", where, tensor.name,
             before->second, shard);
      if (!shard_of.contains(tensor.name)) {
        Fail("{}: tensor '{}': is in {} but not in the index; try downloading the checkpoint again", where, tensor.name,
             shard);
      }
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    const auto found = seen.find(tensor);
    if (found == seen.end() || found->second != shard) {
      Fail("{}: tensor '{}': the index says it is in {}, {}; try downloading the checkpoint again", where, tensor,
           shard, found == seen.end() ? "but it is in no shard" : "but it is in " + found->second);
    }
  }
}

std::vector<Safetensors> OpenFiles(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    Fail("{}: {}; expected a checkpoint's folder", folder.string(), IsThere(folder) ? "got a file" : "no such folder");
  }
  const bool single = IsThere(folder / kSingle), index = IsThere(folder / kIndex);
  if (!single && !index) FailWithoutWeights(folder);
  if (single && index) {
    Fail("{}: has both {} and {}; try removing the index and its shards, or the single file, whichever is older",
         folder.string(), kSingle, kIndex);
  }
  std::vector<Safetensors> files;
  if (single) {
    files.emplace_back(folder / kSingle);
    return files;
  }
  const std::map<std::string, std::string> shard_of = ReadIndex(folder / kIndex);
  files = OpenShards(folder, shard_of);
  CheckAgainstIndex(files, shard_of, (folder / kIndex).string());
  return files;
}

}  // namespace

bool HasPickleName(const fs::path& path) {
  const fs::path extension = path.extension();
  return extension == ".bin" || extension == ".pt" || extension == ".pth";
}

CheckpointFiles::CheckpointFiles(const fs::path& folder) : files_(OpenFiles(folder)) {
  for (const Safetensors& file : files_) {
    for (const TensorView& tensor : file.tensors()) tensors_.emplace(tensor.name, tensor);
  }
  if (const std::optional<TensorNamesFile> names_file = TensorNamesFile::In(folder)) {
    names_hash_ = Sha256OfFile(folder / TensorNamesFile::kName);
    Rename(names_file->OursOf(names()));
  } else if (tensors_.contains("embed_tokens.weight") && !tensors_.contains("model.embed_tokens.weight")) {
    std::map<std::string, std::string> ours_of;
    for (const std::string& name : names()) ours_of[name] = name.starts_with("lm_head.") ? name : "model." + name;
    Rename(ours_of);
  }
}

void CheckpointFiles::Rename(const std::map<std::string, std::string>& ours_of) {
  std::map<std::string, TensorView, std::less<>> renamed;
  for (const auto& [theirs, ours] : ours_of) {
    if (ours.empty()) continue;
    TensorView& tensor = renamed[ours] = tensors_.at(theirs);
    tensor.name = ours;
  }
  tensors_ = std::move(renamed);
}

const TensorView* CheckpointFiles::Find(std::string_view name) const { return FindIn(tensors_, name); }

std::vector<std::string> CheckpointFiles::names() const {
  return tensors_ | std::views::keys | std::ranges::to<std::vector>();
}

int64_t CheckpointFiles::total_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors_) bytes += static_cast<int64_t>(tensor.bytes.size());
  return bytes;
}

void CheckpointFiles::Release(const TensorView& tensor) const {
  if (tensor.bytes.empty() && Find(tensor.name) != nullptr) return;
  if (std::ranges::none_of(files_, [&](const Safetensors& file) { return file.file().Release(tensor.bytes); }))
    Fail("tensor '{}': not in this checkpoint", tensor.name);
}

std::string CheckpointFiles::ContentHash(const FileRead& read) const {
  std::vector<std::string> hashes(files_.size());
  ParallelFor(files_.size(), [&](size_t i, int) { hashes[i] = HashOfFile(files_[i].file(), read); });
  std::string lines;
  for (size_t i = 0; i < files_.size(); ++i)
    lines += hashes[i] + "  " + files_[i].file().path().filename().string() + "\n";
  if (!names_hash_.empty()) lines += names_hash_ + "  " + TensorNamesFile::kName + "\n";
  return Sha256OfText(lines);
}

}  // namespace tare
