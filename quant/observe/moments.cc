// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/moments.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "quant/observe/lanes.h"

namespace tare {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

struct PowerLanes {
  Doubles x{}, x2{}, x3{}, x4{}, magnitude{};

  [[gnu::always_inline]] void Add(const float* four) {
    Floats values;
    std::memcpy(&values, four, sizeof values);
    const Doubles v = __builtin_convertvector(values, Doubles);
    const Doubles squares = v * v;
    x += v;
    x2 += squares;
    x3 += squares * v;
    x4 += squares * squares;
    magnitude += __builtin_convertvector(Magnitudes(values), Doubles);
  }
};

[[gnu::always_inline]] inline PowerSums SumRow(std::span<const float> row) {
  PowerLanes lanes;
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) lanes.Add(row.data() + i);
  if (i < row.size()) {
    float tail[kLanes] = {};
    std::ranges::copy(row.subspan(i), tail);
    lanes.Add(tail);
  }
  return {Sum(lanes.x), Sum(lanes.x2), Sum(lanes.x3), Sum(lanes.x4), Sum(lanes.magnitude)};
}

PowerSums SumPlain(std::span<const float> row) { return SumRow(row); }
using SumOfRow = decltype(&SumPlain);
#ifdef __x86_64__
[[gnu::target("avx2")]] PowerSums SumAvx2(std::span<const float> row) { return SumRow(row); }
SumOfRow FastestSum() { return __builtin_cpu_supports("avx2") ? SumAvx2 : SumPlain; }
#else
SumOfRow FastestSum() { return SumPlain; }
#endif

}  // namespace

// The same bits on both: lanes are as many, and no product is fused with a sum.
PowerSums SumPowers(std::span<const float> row) {
  static const SumOfRow sum = FastestSum();
  return sum(row);
}

long double Moments::SecondCentral() const {
  const long double mean = x / count;
  return std::max(0.0L, x2 / count - mean * mean);
}

long double Moments::FourthCentral() const {
  const long double mean = x / count;
  return std::max(0.0L, x4 / count - mean * (4 * (x3 / count) - mean * (6 * (x2 / count) - 3 * mean * mean)));
}

double Moments::Mean() const { return count == 0 ? kUndefined : static_cast<double>(x / count); }
double Moments::Variance() const { return count == 0 ? kUndefined : static_cast<double>(SecondCentral()); }

double Moments::Kurtosis() const {
  if (count == 0) return kUndefined;
  const long double m2 = SecondCentral();
  return m2 == 0 ? kUndefined : static_cast<double>(FourthCentral() / (m2 * m2));
}

double Moments::QuantizableKurtosis() const {
  if (count < 2) return kUndefined;
  const long double s2 = SecondCentral() * count / (count - 1);
  return static_cast<double>(FourthCentral() / (s2 * s2 + 1e-6L));
}

double Moments::RowKurtosis() const {
  if (count < 2) return kUndefined;
  const long double s2 = SecondCentral() * count / (count - 1);
  return s2 == 0 ? kUndefined : static_cast<double>(std::max(0.0L, x4 / count / (s2 * s2) - 3));
}

}  // namespace tare
