// SPDX-License-Identifier: Apache-2.0
// What a Checkpoint (quant/checkpoint/checkpoint.h) reads from: one kind of folder or file. Every name is found in one
// of three ways.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quant/file/quantized_checkpoint.h"
#include "quant/format/foreign_matrix.h"

namespace tare {

class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;
  virtual std::vector<std::string> names() const = 0;  // sorted
  virtual const TensorView* Find(std::string_view name) const = 0;
  virtual const QuantizedMatrix* FindQuantized(std::string_view) const { return nullptr; }
  virtual const ForeignMatrix* FindForeign(std::string_view) const { return nullptr; }
  virtual void Release(const std::string& name) const = 0;
  virtual std::string ContentHash() const = 0;
  virtual const QuantizedCheckpoint* quantized() const { return nullptr; }
  virtual std::vector<std::string> notes() const { return {}; }
};

}  // namespace tare
