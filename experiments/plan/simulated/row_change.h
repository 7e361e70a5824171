// SPDX-License-Identifier: Apache-2.0
// Applies a rule's options to each row of a block before rounding and undoes them after it: remedies that cost no bits.
//
//   maxshift   subtracts the row's largest logit: softmax is unaffected, and the most important values are near 0
//   keep<n>    leaves the first n keys (columns of maps and logits, tokens of k and v) unchanged and out of the scales,
//              because attention sinks are among them
//   prerotary  of keys: takes rotary positions off (KVQuant, arXiv 2401.18079: channels are alike then)
//   hadamard   rotates a row's channels, of q, k and v those of a head (quant/format/hadamard.h): q and k by the same
//              matrix, like weights and their inputs, so that products do not change; v is rotated back where attention
//              has summed it, which is the same as here
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/cache/key_rotary.h"
#include "quant/format/hadamard.h"
#include "quant/observe/site_visitor.h"
#include "quant/plan/plan.h"

namespace tare {

class RowChange {
 public:
  // rotary: of the block's keys; null without +prerotary. Throws Error for +hadamard if no such matrix exists for the
  // width.
  RowChange(const RuleOptions& options, const SiteBlock& block, const KeyRotary* rotary = nullptr);

  bool Any() const { return rotation_ != nullptr || rotary_ != nullptr || max_shift_ || keep_ > 0; }
  // Row r of the block, or a changed copy of it, all finite.
  void Make(int64_t r, std::span<float> row);
  // Undoes the change of a row that Make made.
  void Undo(int64_t r, std::span<float> row) const;

 private:
  struct Made {
    float shift = 0;
    std::vector<float> kept;
  };
  size_t Kept(int64_t r, size_t columns) const;

  const SiteBlock& block_;
  bool max_shift_;
  int keep_;
  const Hadamard* rotation_;  // null: none
  const KeyRotary* rotary_;   // null: none
  std::vector<Made> made_;    // per row
};

}  // namespace tare
