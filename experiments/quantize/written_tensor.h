// SPDX-License-Identifier: Apache-2.0
// A tensor of a checkpoint as Tare writes it where no codes of its own replace it: as stored, or, if another tool
// quantized it, its values in f32.
#pragma once

#include <string>

#include "experiments/model/linear/weights.h"
#include "quant/base/aligned.h"
#include "quant/file/checkpoint.h"

namespace tare {

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
