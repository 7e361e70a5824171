// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/moments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>

#include "quant/base/error.h"
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

constexpr size_t kErrorLanes = 8;

struct ErrorLanes {
  double error2[kErrorLanes] = {}, error1[kErrorLanes] = {}, product[kErrorLanes] = {}, square[kErrorLanes] = {};

  void Add(size_t lane, double x, double y) {
    const double error = x - y;
    error2[lane] += error * error;
    error1[lane] += std::fabs(error);
    product[lane] += x * y;
    square[lane] += y * y;
  }
};

double Tree(const double* v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

}  // namespace

// The same bits on every machine: the number of lanes is fixed, and no product is fused with a sum.
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

ErrorSums SumErrors(std::span<const float> x, std::span<const float> y) {
  TARE_CHECK(x.size() == y.size());
  ErrorLanes lanes;
  size_t i = 0;
  for (; i + kErrorLanes <= x.size(); i += kErrorLanes) {
    for (size_t lane = 0; lane < kErrorLanes; ++lane) lanes.Add(lane, x[i + lane], y[i + lane]);
  }
  for (size_t lane = 0; i < x.size(); ++i, ++lane) lanes.Add(lane, x[i], y[i]);
  return {Tree(lanes.error2), Tree(lanes.error1), Tree(lanes.product), Tree(lanes.square)};
}

double SignalToNoise(double x2, double error2) {
  if (x2 == 0.0) return std::numeric_limits<double>::quiet_NaN();
  return error2 == 0.0 ? std::numeric_limits<double>::infinity() : 10.0 * std::log10(x2 / error2);
}

double Cosine(double x2, double square, double product) { return product / std::sqrt(x2 * square); }

}  // namespace tare
