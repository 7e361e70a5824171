// SPDX-License-Identifier: Apache-2.0
// Power sums of a row, in double and a fixed order: lane i takes the values i, i+4, i+8, ..., lanes are added in a
// fixed tree. Squares are exact; a sum of n terms of one sign errs by at most (n/4 + 5) 2^-53, relative. Also the mean,
// variance and kurtosis variants that follow, and measures of rows of attention maps.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tare {

// Sums of doubles without rounding: the same bits in any order and split of the stream. After Kulisch: a sum is one
// long fixed-point number, with limbs of 32 bits in int64 words, so that 2^30 additions need no carry. All sums of an
// object share a growing window: 3 to 9 words per sum in practice, of the 67 that doubles span. Addends must not depend
// on the split either: callers add one double per unit that is never split (a row).
class ExactSums {
 public:
  // Limb j is worth 2^(32 j - 1088). Doubles reach from limb 0 to limb 66; a sum of 2^64 of them, two limbs further.
  static constexpr int kLimbs = 70;

  explicit ExactSums(size_t sums = 0) : sums_(sums) {}

  void Add(size_t sum, double value);  // finite
  // Adds factor times sum `of` of the other, also exactly: factor has at most kFactorBits significant bits.
  void AddMultiple(size_t sum, const ExactSums& other, size_t of, double factor);
  static constexpr int kFactorBits = 20;  // with the 32 of a limb they fit a double
  void Merge(const ExactSums& other);     // both must hold equally many sums

  long double Value(size_t sum) const;  // accurate to one ulp of long double
  size_t size() const { return sums_; }

  // The unique form of the values that files store: limb i of sum s is limbs[s * width + i], worth 2^(32 (first + i) -
  // 1088). The last limb of a sum carries its sign, -2^32 .. 2^32 - 1; the others are 0 .. 2^32 - 1.
  struct Digits {
    int first = 0, width = 0;
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

struct PowerSums {
  double x = 0, x2 = 0, x3 = 0, x4 = 0;
  double magnitude = 0;  // of |x|
};

// NaN or infinite exactly if a value is: fourth powers of f32 stay below 2^512, and 2^63 of them fit a double.
PowerSums SumPowers(std::span<const float> row);

// Moments of n values from power sums of what they are above a centre, in long double. About 0 the k-th central moment
// would lose k digits for each digit by which the mean exceeds the deviation.
struct Moments {
  long double count = 0, x = 0, x2 = 0, x3 = 0, x4 = 0;
  long double centre = 0;

  // Adds other values' sums, which keep their precision if both centres are within a few deviations of the means.
  void Add(const Moments& other);

  // NaN with too few values or without spread.
  double Mean() const;
  double Variance() const;  // m2, divided by n
  double Kurtosis() const;  // m4 / m2^2: 3 for a normal law
  // Bondarenko et al., arXiv 2306.12929, code: m4 / (s^4 + 1e-6), s^2 over n - 1, centred, over a sequence's values.
  double QuantizableKurtosis() const;
  // Outlier-Safe Pre-Training, code: max(0, E[x^4] / s^4 - 3), not centred, s^2 centred and over n - 1, over a row.
  double RowKurtosis() const;

 private:
  long double SecondCentral() const;
  long double FourthCentral() const;
};

// The row's moments: about 0, from these sums, if its mean is at most 8 deviations from it; else of finite values about
// their mean in ExactSums::kFactorBits. Fourth moments are thus exact to (n/4 + 5) 2^-53 9^4, n the row's length.
Moments MomentsOf(std::span<const float> row, const PowerSums& sums, size_t values);
inline double Centre(double mean) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(mean) & ~uint64_t{0} << (53 - ExactSums::kFactorBits));
}

// Error sums of a row's approximation, in double and SumPowers' fixed order, and the figures that papers report.
struct ErrorSums {
  double error2 = 0;   // (x - y)^2
  double error1 = 0;   // |x - y|
  double product = 0;  // x y
  double square = 0;   // y^2
};

ErrorSums SumErrors(std::span<const float> x, std::span<const float> y);  // equal lengths

// 10 log10(sum x^2 / sum (x - y)^2), in dB; infinite without error, NaN where both are 0.
double SignalToNoise(double x2, double error2);
double Cosine(double x2, double square, double product);  // sum x y / sqrt(sum x^2 sum y^2)

// ---- Rows of an attention map, or of the difference of two: the spread, and how much a kernel or a cache could skip.

// -sum p ln p, in nats; 0 for p = 0. Logarithms in f32: to within 2^-22 of the row's sum of p |ln p|.
double Entropy(std::span<const float> probabilities);

// Sum of -a over the negative entries: the mass that a difference of maps subtracts.
double NegativeMass(std::span<const float> row);

// Entries and blocks of 64 keys (all entries) with magnitudes below a share of the row's largest. Masses are sums of
// |a|: if the row's |v| is bounded by 1, skipping those entries changes the output by at most that.
inline constexpr std::array<double, 3> kSparsityShares = {1e-3, 1e-2, 1e-1};
inline constexpr int64_t kSparsityBlock = 64;

struct Sparsity {
  int64_t blocks = 0;  // of the row, the last one short
  std::array<int64_t, kSparsityShares.size()> entries_under{}, blocks_under{};
  std::array<double, kSparsityShares.size()> entry_mass{}, block_mass{};
};

Sparsity MeasureSparsity(std::span<const float> row);  // values must be finite

}  // namespace tare
