// SPDX-License-Identifier: Apache-2.0
// A quantized checkpoint's origin: every step so far, a job's finished parts, and what it takes from its checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "experiments/model/linear/weights.h"
#include "experiments/passes/progress.h"
#include "quant/base/aligned.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/quantized_checkpoint.h"

namespace tare {

// Throws Error for a file with codes, which cannot be quantized again.
void RefuseCodes(const Checkpoint& files, const std::filesystem::path& model);

// A step's input: a folder's name and hash, or a file's record. sha256: the known ContentHash; empty: it is read.
Provenance ProvenanceOf(const Checkpoint& files, const std::filesystem::path& model, const std::string& sha256 = "");

// Adds a step: its name to the method, its text (if any) to the calibration.
void AddStep(Provenance& provenance, const std::string& method, const std::string& calibration);

// Throws Error, naming file and option, unless this job made the file for a model with this config.json.
void RequireSameJob(const std::filesystem::path& path, const QuantizedCheckpoint& file, const Provenance& job,
                    const std::string& config);

// What becomes of the parts that an earlier job left: deleted when this job keeps its own first part, or this job's.
enum class EarlierParts { kDeleted, kTakenUp };

// Finished parts of a long `tare quantize` job, in OUT.parts beside the result for its next run: the equivalent
// checkpoint (prepared.h5) and each layer's codes (layer-N.h5), complete or absent. Others' files stay.
class LayerParts {
 public:
  // Throws Error where the folder has a file of a part's name that is none, or that is an input.
  LayerParts(const std::filesystem::path& folder, EarlierParts earlier);
  ~LayerParts();  // removes the folder that was made for parts if none was finished
  LayerParts(const LayerParts&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // The path of the equivalent checkpoint, in an existing folder.
  std::filesystem::path Prepared();
  // Takes the parts up for a job of so many layers. Throws Error for those of another job.
  void TakeUp(const Provenance& job, const std::string& config, int layers) const;
  bool Has(int layer) const { return begun_ && std::filesystem::exists(LayerFile(layer)); }
  // A finished layer, with its bytes checked. Throws Error, naming the difference, if another job made it.
  QuantizedCheckpoint Layer(int layer, const Provenance& job, const std::string& config) const;
  // body adds the layer's matrices.
  void Keep(int layer, const Provenance& job, const std::string& config,
            const std::function<void(QuantizedCheckpointWriter&)>& body);
  // Call it once the result is complete: removes all parts.
  void Remove() const;

 private:
  void NoteParts() const;  // for a run that is interrupted
  int Layers() const;      // how many are finished
  std::filesystem::path LayerFile(int layer) const;
  void Begin();
  void RemoveFolder() const;  // unless something is in it

  std::filesystem::path folder_;
  bool begun_;  // whether the parts in the folder are this job's
};

// Reads a checkpoint once before a long job, also one larger than memory: returns its ContentHash, and checks each part
// just hashed. Throws Error, starting with the path, for f32, bf16 or f16 values that are not finite; other tools'
// codes are checked when dequantized. Progress in bytes, of a folder.
std::string ReadWhole(const std::filesystem::path& path, const Progress& progress);

// config.json, as given, and the tokenizer's files of the checkpoint at `model`.
void AddTextFiles(const std::filesystem::path& model, const std::string& config, QuantizedCheckpointWriter& out);

// A tensor as it is stored, or, where another tool quantized it, its values in f32, in this memory. The name is one
// that the checkpoint has, and is not in Tare's own codes.
TensorView WrittenTensor(const Checkpoint& files, const std::string& name, AlignedBuffer<char>& memory);

}  // namespace tare
