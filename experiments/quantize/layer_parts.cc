// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/layer_parts.h"

#include "experiments/quantize/provenance.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {

namespace fs = std::filesystem;

LayerParts::LayerParts(const fs::path& out, EarlierParts earlier)
    : folder_(out.string() + ".parts"), begun_(earlier == EarlierParts::kTakenUp) {}

void LayerParts::Begin() {
  if (!begun_) Remove();
  begun_ = true;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) Fail("{}: cannot be created: {}; try another --out", folder_.string(), error.message());
}

fs::path LayerParts::Prepared() {
  Begin();
  return folder_ / "prepared.h5";
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

// Only what such a folder holds: parts, and what a killed run left unfinished.
void LayerParts::Remove() const {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("layer-") || name.starts_with("prepared.h5")) fs::remove(entry.path(), error);
  }
  fs::remove(folder_, error);  // stays where somebody put something else there
}

}  // namespace tare
