// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/layer_parts.h"

#include <format>

#include "experiments/quantize/provenance.h"
#include "quant/base/error.h"

namespace tare {

namespace fs = std::filesystem;

LayerParts::LayerParts(const fs::path& out, bool resume) : folder_(out.string() + ".parts") {
  if (!resume) Remove();
}

void LayerParts::MakeFolder() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) Fail("{}: cannot be made: {}; try another --out", folder_.string(), error.message());
}

fs::path LayerParts::Prepared() const {
  MakeFolder();
  return folder_ / "prepared.h5";
}

fs::path LayerParts::LayerFile(int layer) const { return folder_ / std::format("layer-{}.h5", layer); }

QuantizedCheckpoint LayerParts::Layer(int layer, const Provenance& job) const {
  QuantizedCheckpoint part(LayerFile(layer));
  RequireSameJob(LayerFile(layer), part.provenance(), job);
  return part;
}

void LayerParts::Keep(int layer, const Provenance& job,
                      const std::function<void(QuantizedCheckpointWriter&)>& body) const {
  MakeFolder();
  QuantizedCheckpointWriter part(LayerFile(layer), job);
  body(part);
  part.Commit();
}

void LayerParts::Remove() const {
  std::error_code error;
  fs::remove_all(folder_, error);
  if (error) Fail("{}: cannot be removed: {}", folder_.string(), error.message());
}

}  // namespace tare
