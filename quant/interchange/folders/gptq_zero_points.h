// SPDX-License-Identifier: Apache-2.0
// GPTQ's two conventions of zero points. Version 1 subtracts one from each before packing, by subtracting 0x11111111
// (of 4 bits) from each word, so that a zero point of 0 borrows from its neighbour and the sum of words gives it
// back; version 2 stores them as they are. Checkpoints name the version, and many name the wrong one. The values
// tell:
//
//   symmetric    all zero points are 2^(bits - 1): stored as that, or as one less
//   asymmetric   weights are near zero on average, so the mean of code - zero point is near 0 by the right convention
//                and near 1 or -1 by the wrong one
#pragma once

#include <string>
#include <vector>

#include "quant/interchange/folders/grouped_matrix.h"

namespace tare {

enum class StoredZeros { kLessOne, kAsTheyAre };

// The zero points of `packed`, as the convention stores them.
PackedCodes ZeroCodes(PackedCodes packed, StoredZeros stored);

class ZeroPointVotes {
 public:
  ZeroPointVotes(std::string where, StoredZeros configured) : where_(std::move(where)), configured_(configured) {}

  // parts.zeros are as they are stored. Throws Error if they contradict `symmetric`, or each other.
  void Add(const GroupedParts& parts, bool symmetric);
  // With a note, if it is not the configured one.
  StoredZeros Decide(std::vector<std::string>& notes) const;

 private:
  void AddSymmetric(const GroupedParts& parts);
  void AddAsymmetric(const GroupedParts& parts);

  std::string where_;
  StoredZeros configured_;
  std::string less_one_, as_they_are_;  // a symmetric matrix that shows it
  double mean_less_one_ = 0, mean_as_they_are_ = 0, weights_ = 0;
};

}  // namespace tare
