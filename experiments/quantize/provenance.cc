// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/provenance.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "experiments/model/model.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/hdf5.h"
#include "quant/file/open_folder.h"
#include "quant/file/temporary_name.h"

namespace tare {

void RefuseCodes(const Checkpoint& files, const std::filesystem::path& model) {
  if (files.quantized() == nullptr || files.quantized()->matrices().empty()) return;
  Fail("{}: is already quantized ({}); expected a checkpoint folder, or a file without codes", model.string(),
       files.quantized()->provenance().plan);
}

Provenance ProvenanceOf(const Checkpoint& files, const std::filesystem::path& model, const std::string& sha256) {
  if (files.quantized() != nullptr) return files.quantized()->provenance();
  std::string source = ModelName(model), schemes;
  for (const auto& [scheme, totals] : files.schemes()) schemes += (schemes.empty() ? "" : ", ") + scheme;
  if (!schemes.empty()) source += " (dequantized from " + schemes + ")";
  return {.source = source, .source_sha256 = sha256.empty() ? files.ContentHash() : sha256};
}

void AddStep(Provenance& p, const std::string& method, const std::string& calibration) {
  if (!method.empty()) p.method += (p.method.empty() ? "" : "+") + method;
  if (!calibration.empty() && calibration != p.calibration)
    p.calibration += (p.calibration.empty() ? "" : "; ") + calibration;
}

void RequireSameJob(const std::filesystem::path& path, const QuantizedCheckpoint& file, const Provenance& job,
                    const std::string& config) {
  const Provenance& found = file.provenance();
  const auto require = [&](const char* what, const std::string& got, const std::string& expected) {
    if (got == expected) return;
    Fail("{}: belongs to another job: its {} is '{}', this job's is '{}'; try without --resume", path.string(), what,
         got, expected);
  };
  require("plan", found.plan, job.plan);
  require("method", found.method, job.method);
  require("model", found.source, job.source);
  require("model's sha256", found.source_sha256, job.source_sha256);
  require("calibration", found.calibration, job.calibration);
  require("config.json", std::string(file.File("config.json").value_or("")), config);
}

namespace fs = std::filesystem;

// "prepared.h5", "layer-12.h5".
static bool IsPartName(const std::string& name) {
  constexpr std::string_view kLayer = "layer-", kEnd = ".h5";
  if (name == "prepared.h5") return true;
  if (!name.starts_with(kLayer) || !name.ends_with(kEnd)) return false;
  return ParseNumber<int>(std::string_view(name).substr(kLayer.size(), name.size() - kLayer.size() - kEnd.size()))
      .has_value();
}

LayerParts::LayerParts(const fs::path& folder, EarlierParts earlier)
    : folder_(folder), begun_(earlier == EarlierParts::kTakenUp) {
  const auto there = OpenFolder::Of(folder_);
  if (there == nullptr) return;
  there->ForEachName([&](const std::string& name) {
    if (IsPartName(name) && !IsQuantizedSchema(SchemaOf(folder_ / name)))
      Fail("{}: got a file that is no part of a job, expected none; try another --out, or move it",
           (folder_ / name).string());
  });
}

LayerParts::~LayerParts() {
  if (begun_) RemoveFolder();
}

void LayerParts::Begin() {
  if (!begun_) Remove();
  begun_ = true;
  if (OpenFolder::Make(folder_) == nullptr)
    Fail("{}: cannot be created: {}; try another --out", folder_.string(), std::strerror(errno));
}

fs::path LayerParts::Prepared() {
  Begin();
  return folder_ / "prepared.h5";
}

int LayerParts::Layers() const {
  int layers = 0;
  while (Has(layers)) ++layers;
  return layers;
}

fs::path LayerParts::LayerFile(int layer) const { return folder_ / Formatted("layer-{}.h5", layer); }

QuantizedCheckpoint LayerParts::Layer(int layer, const Provenance& job, const std::string& config) const {
  QuantizedCheckpoint part(LayerFile(layer));
  RequireSameJob(LayerFile(layer), part, job, config);
  part.Verify();
  return part;
}

void LayerParts::Keep(int layer, const Provenance& job, const std::string& config,
                      const std::function<void(QuantizedCheckpointWriter&)>& body) {
  Begin();
  QuantizedCheckpointWriter part(LayerFile(layer), job);
  part.AddFile("config.json", config);
  body(part);
  part.Commit();
}

// Parts, and what a killed run left unfinished. The folder stays where somebody put something else there.
void LayerParts::Remove() const {
  if (const auto folder = OpenFolder::Of(folder_)) {
    folder->ForEachName([&](const std::string& name) {
      if (IsPartName(name) || IsTemporaryName(name)) RemoveTemporary(*folder, name);
    });
  }
  RemoveFolder();
}

void LayerParts::RemoveFolder() const {
  if (const auto above = OpenFolder::Of(FolderOf(folder_)))
    unlinkat(above->fd(), folder_.filename().c_str(), AT_REMOVEDIR);
}

}  // namespace tare
