// SPDX-License-Identifier: Apache-2.0
#include "quant/file/checkpoint_files.h"

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <set>

#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/file/json.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLayer = "{}";

bool FitsEnd(std::string_view rest, std::string_view pattern) {
  return pattern.ends_with('*') ? rest.starts_with(pattern.substr(0, pattern.size() - 1)) : rest == pattern;
}

// The layer's number in a name that fits the pattern, "" for a pattern without one; empty if it does not fit.
std::optional<std::string> NumberIn(std::string_view name, std::string_view pattern) {
  const size_t at = pattern.find(kLayer);
  if (at == pattern.npos) return FitsEnd(name, pattern) ? std::optional(std::string()) : std::nullopt;
  if (!name.starts_with(pattern.substr(0, at))) return std::nullopt;
  const std::string_view rest = name.substr(at);
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  if (digits == 0 || !FitsEnd(rest.substr(digits), pattern.substr(at + kLayer.size()))) return std::nullopt;
  return std::string(rest.substr(0, digits));
}

std::string WithNumber(std::string pattern, const std::string& number) {
  if (const size_t at = pattern.find(kLayer); at != pattern.npos) pattern.replace(at, kLayer.size(), number);
  return pattern;
}

// The number of {} in a pattern that is not empty.
ptrdiff_t Layers(std::string_view pattern) { return std::ranges::distance(std::views::split(pattern, kLayer)) - 1; }

std::string NameIn(const nlohmann::json& value, const std::string& where) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    Fail("{}: got {}, expected a tensor's name", where, value.dump());
  return value.get<std::string>();
}

constexpr std::string_view kSingle = "model.safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";

// A path that cannot be examined counts as missing.
bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// tensor -> shard
std::map<std::string, std::string> ReadIndex(const fs::path& path) {
  const nlohmann::json index = ReadJson(path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    Fail("{}: has no object 'weight_map'; try downloading it again", path.string());
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      Fail("{}: weight_map: '{}': got {}, expected a file name", path.string(), tensor, shard.type_name());
    const std::string& name = shards[tensor] = shard;  // in the checkpoint's own folder
    if (name.empty() || name.find_first_of(std::string_view("/\\\0", 3)) != name.npos || name.contains(".."))
      Fail("{}: expected shards named without '/' and '..', got '{}'", path.string(), name);
  }
  return shards;
}

// The shards that are there, in order of their names, and those that are missing.
std::vector<Safetensors> OpenShards(const fs::path& folder, const std::map<std::string, std::string>& shard_of,
                                    std::set<std::string>& missing) {
  std::set<std::string> names;
  for (const auto& [tensor, shard] : shard_of) names.insert(shard);
  std::vector<Safetensors> files;
  for (const std::string& name : names) {
    if (IsThere(folder / name))
      files.emplace_back(folder / name);
    else
      missing.insert(name);
  }
  return files;
}

void CheckAgainstIndex(const std::vector<Safetensors>& files, const std::map<std::string, std::string>& shard_of,
                       const std::set<std::string>& missing, const std::string& where) {
  std::map<std::string_view, std::string> seen;  // tensor -> shard
  for (const Safetensors& file : files) {
    const std::string shard = file.file().path().filename().string();
    for (const TensorView& tensor : file.tensors()) {
      const auto [before, is_new] = seen.emplace(tensor.name, shard);
      if (!is_new)
        Fail("{}: tensor '{}': occurs twice, in {} and in {}; try saving the checkpoint again", where, tensor.name,
             before->second, shard);
      if (!shard_of.contains(tensor.name))
        Fail("{}: tensor '{}': is in {} but not in the index; try downloading the checkpoint again", where, tensor.name,
             shard);
    }
  }
  for (const auto& [tensor, shard] : shard_of) {
    const auto found = seen.find(tensor);
    if (found == seen.end() ? !missing.contains(shard) : found->second != shard)
      Fail("{}: tensor '{}': the index says it is in {}, {}; try downloading the checkpoint again", where, tensor,
           shard, found == seen.end() ? "but it is in no shard" : "but it is in " + found->second);
  }
}

std::vector<Safetensors> OpenFiles(const fs::path& folder, std::set<std::string>& missing) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    Fail("{}: {}; expected a checkpoint's folder", folder.string(), IsThere(folder) ? "got a file" : "no such folder");
  const bool single = IsThere(folder / kSingle), index = IsThere(folder / kIndex);
  if (!single && !index)
    Fail("{}: has neither {} nor {}; {}", folder.string(), kSingle, kIndex,
         std::ranges::any_of(fs::directory_iterator(folder, error), HasPickleName)
             ? "pickle checkpoints (*.bin, *.pt) are not supported; try converting it with "
               "save_pretrained(folder, safe_serialization=True)"
             : "try downloading the checkpoint again");
  if (single && index)
    Fail("{}: has both {} and {}; try removing the index and its shards, or the single file, whichever is older",
         folder.string(), kSingle, kIndex);
  std::vector<Safetensors> files;
  if (single) {
    files.emplace_back(folder / kSingle);
    return files;
  }
  const std::map<std::string, std::string> shard_of = ReadIndex(folder / kIndex);
  files = OpenShards(folder, shard_of, missing);
  CheckAgainstIndex(files, shard_of, missing, (folder / kIndex).string());
  return files;
}

}  // namespace

std::optional<TensorNamesFile> TensorNamesFile::In(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kName;
  if (!IsThere(path)) return std::nullopt;
  TensorNamesFile file;
  file.where_ = path.string();
  const nlohmann::json json = ReadJson(path);
  if (!json.is_object()) Fail("{}: got {}, expected an object", file.where_, json.type_name());
  for (const auto& [key, value] : json.items()) {
    const bool is_list = key == "ignore";
    if (key != "names" && key != "config" && !is_list)
      Fail("{}: got key '{}', expected names, ignore or config", file.where_, key);
    if (is_list ? !value.is_array() : !value.is_object())
      Fail("{}: {}: got {}, expected {}", file.where_, key, value.type_name(), is_list ? "a list" : "an object");
  }
  const auto names = json.value("names", nlohmann::json::object()),
             ignored = json.value("ignore", nlohmann::json::array());
  for (const auto& [ours, theirs] : names.items())
    file.entries_.emplace_back(ours, NameIn(theirs, file.where_ + ": names: '" + ours + "'"));
  for (const nlohmann::json& theirs : ignored) file.entries_.emplace_back("", NameIn(theirs, file.where_ + ": ignore"));
  for (const auto& [ours, theirs] : file.entries_) {
    if (Layers(theirs) > 1 || (!ours.empty() && Layers(ours) != Layers(theirs)))
      Fail("{}: names: '{}': got '{}', expected {{}} for a layer's number once in both or in neither", file.where_,
           ours, theirs);
  }
  file.config_ = json.value("config", nlohmann::json::object()).dump();
  return file;
}

std::map<std::string, std::string> TensorNamesFile::OursOf(const std::vector<std::string>& stored) const {
  std::map<std::string, std::string> ours_of;
  for (const auto& [ours, theirs] : entries_) {
    bool found = ours.empty() && theirs.ends_with('*');  // which may fit none
    for (const std::string& name : stored) {
      const std::optional<std::string> number = NumberIn(name, theirs);
      if (!number) continue;
      found = true;
      const auto [before, is_new] = ours_of.emplace(name, WithNumber(ours, *number));
      if (!is_new)
        Fail("{}: names: tensor '{}': got '{}' and '{}' for it, expected one name", where_, name, before->second, ours);
    }
    if (!found)
      Fail("{}: {}: got '{}', which the checkpoint does not have{}", where_,
           ours.empty() ? "ignore" : "names: '" + ours + "'", theirs, NearestText(WithNumber(theirs, "0"), stored));
  }
  std::map<std::string, std::string> theirs_of;
  for (const std::string& name : stored) {
    const std::string& ours = ours_of.emplace(name, name).first->second;
    if (ours.empty()) continue;
    const auto [before, is_new] = theirs_of.emplace(ours, name);
    if (!is_new) Fail("{}: names: '{}': got '{}' and '{}', expected one tensor", where_, ours, before->second, name);
  }
  return ours_of;
}

std::string TensorNamesFile::ConfigText(const std::optional<std::string>& text, const std::string& where) const {
  Json config = text ? ParseOrderedJson(*text, where) : Json::object();
  if (!config.is_object()) Fail("{}: not a JSON object; try saving the checkpoint again", where);
  config.update(Json::parse(config_));
  return config.dump(2) + "\n";
}

bool HasPickleName(const fs::path& path) {
  const fs::path extension = path.extension();
  return extension == ".bin" || extension == ".pt" || extension == ".pth";
}

CheckpointFiles::CheckpointFiles(const fs::path& folder) : files_(OpenFiles(folder, missing_)) {
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
