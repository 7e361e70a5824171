// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/folders/gptq_zero_points.h"

#include <algorithm>
#include <cmath>

#include "quant/base/error.h"
#include "quant/base/formatted.h"

namespace tare {
namespace {

constexpr int64_t kRows = 64;  // of a matrix that are looked at
// The two means differ by one. With 4 bits, codes of a row are spread by some 3, so the mean of 64 rows of 64 columns
// is known to 0.05.
constexpr double kNear = 0.25, kFar = 0.75;

// The median over rows of the mean of code - zero point: rows of one sign do not move it.
double MiddleOf(const GroupedParts& parts, const PackedCodes& zeros) {
  const int64_t step = std::max<int64_t>(1, parts.out / kRows);
  std::vector<uint8_t> codes(static_cast<size_t>(parts.in));
  std::vector<double> means;
  for (int64_t row = 0; row < parts.out; row += step) {
    parts.codes.Row(row, parts.in, codes.data());
    int64_t total = 0;
    for (int64_t c = 0; c < parts.in; ++c) {
      const int64_t group = parts.group_of.empty() ? c / parts.columns : parts.group_of[c];
      total += int64_t{codes[c]} - int64_t{zeros.At(row, group)};
    }
    means.push_back(static_cast<double>(total) / static_cast<double>(parts.in));
  }
  const auto middle = means.begin() + std::ssize(means) / 2;
  std::ranges::nth_element(means, middle);
  return *middle;
}

}  // namespace

PackedCodes ZeroCodes(PackedCodes packed, StoredZeros stored) {
  if (stored == StoredZeros::kAsTheyAre) return packed;
  if (32 % packed.bits != 0) {  // 3 bits lie across words, and are counted one by one
    packed.code_add = 1;
    return packed;
  }
  for (int shift = 0; shift < 32; shift += packed.bits) packed.word_add |= 1u << shift;
  return packed;
}

void ZeroPointVotes::Add(const GroupedParts& parts, bool symmetric) {
  if (symmetric) {
    AddSymmetric(parts);
  } else {
    AddAsymmetric(parts);
  }
}

void ZeroPointVotes::AddSymmetric(const GroupedParts& parts) {
  const uint32_t middle = 1u << (parts.codes.bits - 1), first = parts.zeros->At(0, 0);
  if (first != middle && first != middle - 1)
    Fail("{}: zero point 0 is stored as {}, expected {} or {} of all where quantization_config says sym: true",
         parts.where, first, middle - 1, middle);
  for (int64_t row = 0; row < parts.out; ++row) {
    for (int64_t g = 0; g < parts.groups; ++g) {
      if (const uint32_t zero = parts.zeros->At(row, g); zero != first)
        Fail(
            "{}: zero point of row {}, group {} is stored as {}, another as {}; expected one value where "
            "quantization_config says sym: true",
            parts.where, row, g, zero, first);
    }
  }
  (first == middle ? as_they_are_ : less_one_) = parts.name;
  if (!less_one_.empty() && !as_they_are_.empty())
    Fail("{}: zero points of '{}' are stored less one, those of '{}' as they are; expected one convention", where_,
         less_one_, as_they_are_);
}

void ZeroPointVotes::AddAsymmetric(const GroupedParts& parts) {
  const double weight = std::exp2(-2 * parts.codes.bits);  // the spread of codes grows with 2^bits
  mean_less_one_ += weight * MiddleOf(parts, ZeroCodes(*parts.zeros, StoredZeros::kLessOne));
  mean_as_they_are_ += weight * MiddleOf(parts, ZeroCodes(*parts.zeros, StoredZeros::kAsTheyAre));
  weights_ += weight;
}

StoredZeros ZeroPointVotes::Decide(std::vector<std::string>& notes) const {
  StoredZeros decided = configured_;
  if (!less_one_.empty()) {
    decided = StoredZeros::kLessOne;
  } else if (!as_they_are_.empty()) {
    decided = StoredZeros::kAsTheyAre;
  } else if (weights_ > 0) {
    const double less_one = std::fabs(mean_less_one_ / weights_);
    const double as_they_are = std::fabs(mean_as_they_are_ / weights_);
    if (less_one < kNear && as_they_are > kFar) decided = StoredZeros::kLessOne;
    if (as_they_are < kNear && less_one > kFar) decided = StoredZeros::kAsTheyAre;
  }
  if (decided != configured_)
    notes.emplace_back(decided == StoredZeros::kLessOne
                           ? "zero points are stored less one, as their values show; config.json says otherwise"
                           : "zero points are stored as they are, as their values show; config.json says less one");
  return decided;
}

}  // namespace tare
