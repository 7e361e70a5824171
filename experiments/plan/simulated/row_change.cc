// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/simulated/row_change.h"

#include <algorithm>

namespace tare {
namespace {

bool RowsAreKeys(Site site) { return site == Site::kK || site == Site::kV; }

}  // namespace

RowChange::RowChange(const RuleOptions& options, const SiteBlock& block, const KeyRotary* rotary)
    : block_(block),
      max_shift_(options.max_shift),
      keep_(options.keep),
      rotation_(options.Rotation(block.first_columns)),
      rotary_(rotary) {
  if (Any()) made_.resize(static_cast<size_t>(block.rows));
}

// Of a row's columns, from the first on.
size_t RowChange::Kept(int64_t r, size_t columns) const {
  if (RowsAreKeys(block_.site)) return block_.first_row + r < keep_ ? columns : 0;
  return static_cast<size_t>(std::clamp<int64_t>(keep_ - block_.First(r), 0, static_cast<int64_t>(columns)));
}

void RowChange::Make(int64_t r, std::span<float> row) {
  Made& made = made_[static_cast<size_t>(r)];
  const std::span<float> kept = row.first(Kept(r, row.size()));
  made.kept.assign(kept.begin(), kept.end());
  if (max_shift_ && !row.empty()) {
    made.shift = std::ranges::max(row);
    for (float& x : row) x -= made.shift;
  }
  std::ranges::fill(kept, 0.0f);  // which widens no scale
  if (rotary_) rotary_->TurnBack(row.data(), block_.first_row + r);
  if (rotation_) rotation_->Rotate(row.data(), row.data());
}

void RowChange::Undo(int64_t r, std::span<float> row) const {
  const Made& made = made_[static_cast<size_t>(r)];
  if (rotation_) rotation_->RotateBack(row.data(), row.data());
  if (rotary_) rotary_->Turn(row.data(), block_.first_row + r);
  for (float& x : row) x += made.shift;
  std::ranges::copy(made.kept, row.begin());
}

}  // namespace tare
