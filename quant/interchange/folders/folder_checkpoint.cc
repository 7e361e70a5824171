// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder as a checkpoint: tensors, and matrices that another tool quantized (quantization_config).
#include <algorithm>

#include "quant/base/message.h"
#include "quant/file/checkpoint_files.h"
#include "quant/interchange/folders/quantization_config.h"

namespace tare {
namespace {

namespace fs = std::filesystem;

// Where another tool quantized the folder, its matrices take the places of the tensors that they consist of.
class FolderCheckpoint : public CheckpointSource {
 public:
  explicit FolderCheckpoint(const fs::path& path) : files_(path), tensors_(files_, path.string()) {
    const std::optional<std::string> config = FolderText(path, "config.json");
    if (config) model_ = ReadForeignModel(*config, path, tensors_);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const std::string& name : files_.names()) {
      if (!tensors_.IsTaken(name)) names.push_back(name);
    }
    for (const auto& [name, matrix] : model_.matrices) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }
  const TensorView* Find(std::string_view name) const override {
    return tensors_.IsTaken(std::string(name)) ? nullptr : files_.Find(name);
  }
  const ForeignMatrix* FindForeign(std::string_view name) const override {
    const auto found = model_.matrices.find(name);
    return found == model_.matrices.end() ? nullptr : found->second.get();
  }
  void Release(const std::string& name) const override {
    if (const ForeignMatrix* matrix = FindForeign(name)) return matrix->Release();
    const TensorView* tensor = Find(name);
    if (tensor == nullptr) Fail("tensor '{}': not in this checkpoint", name);
    files_.Release(*tensor);
  }
  std::string ContentHash() const override { return files_.ContentHash(); }
  std::vector<std::string> notes() const override { return model_.notes; }
  std::set<std::string> missing() const override { return files_.missing(); }

 private:
  CheckpointFiles files_;
  ModuleTensors tensors_;
  ForeignModel model_;
};

// A config.json that Python wrote may have numbers that are no JSON: limits that bound nothing, such as Mamba-2's
// time_step_limit. Here they are strings, which a reader of numbers refuses by their key.
std::string WithoutInfinities(std::string_view python) {
  constexpr std::string_view kNames[]{"-Infinity", "Infinity", "NaN"};
  std::string json;
  bool in_string = false;
  for (size_t i = 0, size = 1; i < python.size(); i += size) {
    const std::string_view rest = python.substr(i);
    const auto name =
        std::ranges::find_if(kNames, [&](std::string_view n) { return !in_string && rest.starts_with(n); });
    const bool found = name != std::end(kNames);
    size = found ? name->size() : in_string && rest[0] == '\\' ? 2 : 1;
    in_string ^= rest[0] == '"';
    json += found ? "\"" + std::string(*name) + "\"" : std::string(rest.substr(0, size));
  }
  return json;
}

}  // namespace

std::unique_ptr<const CheckpointSource> OpenFolderCheckpoint(const fs::path& folder) {
  return std::make_unique<FolderCheckpoint>(folder);
}

std::optional<std::string> FolderText(const fs::path& folder, const std::string& name) {
  std::error_code error;
  std::optional<std::string> text;
  if (fs::exists(folder / name, error)) {
    const MappedFile file(folder / name);
    text.emplace(file.text());
  }
  if (name != "config.json") return text;
  if (text) text = WithoutInfinities(*text);
  const std::optional<TensorNamesFile> names = TensorNamesFile::In(folder);
  return names ? names->ConfigText(text, (folder / name).string()) : text;
}

}  // namespace tare
