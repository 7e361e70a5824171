// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/moments.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace tare {
namespace {

constexpr size_t kLanes = 4;  // five sums of four doubles fit the registers of any x86-64
// The compiler makes of them what the machine has; the order of additions is the same.
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));
using Ints = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Lanes {
  Doubles x{}, x2{}, x3{}, x4{}, magnitude{};

  void Add(const float* four) {
    Floats values;
    std::memcpy(&values, four, sizeof values);
    const Doubles v = __builtin_convertvector(values, Doubles);
    const Doubles squares = v * v;
    x += v;
    x2 += squares;
    x3 += squares * v;
    x4 += squares * squares;
    const Floats magnitudes = std::bit_cast<Floats>(std::bit_cast<Ints>(values) & INT32_MAX);
    magnitude += __builtin_convertvector(magnitudes, Doubles);
  }
};

double Tree(const Doubles& v) { return (v[0] + v[2]) + (v[1] + v[3]); }

}  // namespace

PowerSums SumPowers(std::span<const float> row) {
  Lanes lanes;
  size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) lanes.Add(row.data() + i);
  if (i < row.size()) {
    float tail[kLanes] = {};
    std::ranges::copy(row.subspan(i), tail);
    lanes.Add(tail);
  }
  return {Tree(lanes.x), Tree(lanes.x2), Tree(lanes.x3), Tree(lanes.x4), Tree(lanes.magnitude)};
}

long double Moments::SecondCentral() const {
  const long double mean = x / count;
  return std::max(0.0L, x2 / count - mean * mean);
}

long double Moments::FourthCentral() const {
  const long double mean = x / count;
  return std::max(0.0L, x4 / count - mean * (4 * (x3 / count) - mean * (6 * (x2 / count) - 3 * mean * mean)));
}

double Moments::Mean() const { return count == 0 ? kNone : static_cast<double>(x / count); }
double Moments::Variance() const { return count == 0 ? kNone : static_cast<double>(SecondCentral()); }

double Moments::Kurtosis() const {
  if (count == 0) return kNone;
  const long double m2 = SecondCentral();
  return m2 == 0 ? kNone : static_cast<double>(FourthCentral() / (m2 * m2));
}

double Moments::QuantizableKurtosis() const {
  if (count < 2) return kNone;
  const long double s2 = SecondCentral() * count / (count - 1);
  return static_cast<double>(FourthCentral() / (s2 * s2 + 1e-6L));
}

double Moments::RowKurtosis() const {
  if (count < 2) return kNone;
  const long double s2 = SecondCentral() * count / (count - 1);
  return s2 == 0 ? kNone : static_cast<double>(std::max(0.0L, x4 / count / (s2 * s2) - 3));
}

}  // namespace tare
