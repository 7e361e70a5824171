// SPDX-License-Identifier: Apache-2.0
// What Tare writes of a checkpoint besides codes of its own: its small files, and tensors as they are stored, or, where
// another tool quantized one, its values in f32.
#pragma once

#include <string>

#include "experiments/model/linear/weights.h"
#include "quant/base/aligned.h"
#include "quant/checkpoint/checkpoint.h"

namespace tare {

// config.json, as given, and the tokenizer's files of the checkpoint at `model`.
void AddTextFiles(const std::filesystem::path& model, const std::string& config, QuantizedCheckpointWriter& out);

class WrittenTensor {
 public:
  // A name that the checkpoint has and that is not in Tare's own codes. The view lives as long as both.
  WrittenTensor(const Checkpoint& files, const std::string& name);

  const TensorView& view() const { return view_; }
  int64_t stored_bytes() const { return stored_bytes_; }  // in the checkpoint

 private:
  AlignedBuffer<char> values_;  // f32
  TensorView view_;
  int64_t stored_bytes_ = 0;
};

}  // namespace tare
