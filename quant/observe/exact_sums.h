// SPDX-License-Identifier: Apache-2.0
// Sums of doubles without rounding: the same bits in any order and for any split of the stream. After Kulisch: a sum is
// one long fixed-point number, with limbs of 32 bits in int64 words, so that 2^30 additions need no carry. The limbs of
// all sums of an object share one window, which grows as needed: 3 to 9 words per sum in practice, of the 67 that
// doubles span.
//
// The addends must not depend on the split either: callers add one double per unit that is never split (a row).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tare {

class ExactSums {
 public:
  // Limb j is worth 2^(32 j - 1088). Doubles reach from limb 0 to limb 66; a sum of 2^64 of them, two limbs further.
  static constexpr int kLimbs = 70;

  explicit ExactSums(size_t sums = 0) : sums_(sums) {}

  void Add(size_t sum, double value);  // finite
  // Adds factor times sum `of` of the other, also exactly: factor has at most kFactorBits significant bits.
  void AddMultiple(size_t sum, const ExactSums& other, size_t of, double factor);
  static constexpr int kFactorBits = 20;  // with the 32 of a limb they fit a double
  // Both must hold equally many sums.
  void Merge(const ExactSums& other);

  // Accurate to one ulp of long double.
  long double Value(size_t sum) const;
  size_t size() const { return sums_; }

  // The unique form of the values that files store: limb i of sum s is limbs[s * width + i], worth 2^(32 (first + i) -
  // 1088). The last limb of a sum carries its sign, -2^32 .. 2^32 - 1; the others are 0 .. 2^32 - 1.
  struct Digits {
    int first = 0;
    int width = 0;
    std::vector<int64_t> limbs;
    friend bool operator==(const Digits&, const Digits&) = default;
  };
  Digits Canonical() const;
  // Throws Error for limbs out of range or in the wrong number, because they come from files.
  static ExactSums From(size_t sums, const Digits& digits);

  // Sums [begin, begin + count) alone, and the sums of many objects one after another, as files store them.
  ExactSums Slice(size_t begin, size_t count) const;
  static ExactSums Concatenated(std::span<const ExactSums* const> parts);

  friend bool operator==(const ExactSums& a, const ExactSums& b) {
    return a.sums_ == b.sums_ && a.Canonical() == b.Canonical();
  }

 private:
  void Cover(int first, int last);  // makes the window hold limbs first .. last
  double TakeSign();                // carries, of one sum, which becomes its magnitude; -1 or 1
  void Carry();                     // limbs to 0 .. 2^32 - 1, the last to -1 or 0
  std::span<int64_t> Limbs(size_t sum) { return {limbs_.data() + sum * Width(), Width()}; }
  size_t Width() const { return static_cast<size_t>(width_); }

  size_t sums_;
  int first_ = 0, width_ = 0;
  uint64_t pending_ = 0;        // a limb's magnitude is at most pending_ 2^32
  std::vector<int64_t> limbs_;  // [sums_][width_]
};

}  // namespace tare
