// SPDX-License-Identifier: Apache-2.0
// Finished parts of a long `tare quantize` job, kept in the folder OUT.parts beside the result for --resume: the
// equivalent checkpoint (prepared.h5) and the codes of each finished layer (layer-N.h5), each file complete or absent.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "quant/file/quantized_checkpoint.h"

namespace tare {

// What becomes of the parts that an earlier job left: deleted when this job keeps its own first part, or this job's.
enum class EarlierParts { kDeleted, kTakenUp };

class LayerParts {
 public:
  LayerParts(const std::filesystem::path& out, EarlierParts earlier);

  // Where the equivalent checkpoint goes, in a folder that is there.
  std::filesystem::path Prepared();
  bool Has(int layer) const { return begun_ && std::filesystem::exists(LayerFile(layer)); }
  // A layer that is done, its bytes checked. Throws Error where it was done by another job, naming what differs.
  QuantizedCheckpoint Layer(int layer, const Provenance& job, const std::string& config) const;
  // body adds the layer's matrices.
  void Keep(int layer, const Provenance& job, const std::string& config,
            const std::function<void(QuantizedCheckpointWriter&)>& body);
  // The result is there: nothing is needed any more.
  void Remove() const;

 private:
  std::filesystem::path LayerFile(int layer) const;
  void Begin();

  std::filesystem::path folder_;
  bool begun_;  // what lies in the folder is this job's
};

}  // namespace tare
