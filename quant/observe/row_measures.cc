// SPDX-License-Identifier: Apache-2.0
// Vector loops for power sums, errors, logarithms and thresholds, then moments, errors, entropy and sparsity.
#include "quant/observe/row_measures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/message.h"
#include "quant/base/widest_vectors.h"

namespace tare {
namespace {

// Four floats (128 bits) are a vector type on every 64-bit machine, so functions may return them; five sums of four
// doubles fit the registers of any x86-64. The order of additions is the same everywhere.
constexpr size_t kLanes = 4;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Ints = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
using Words = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

[[gnu::always_inline]] inline Floats Magnitudes(const Floats& v) {
  return std::bit_cast<Floats>(std::bit_cast<Ints>(v) & INT32_MAX);
}

// Always in this order: (first + third) + (second + fourth).
template <typename Vector>
auto Sum(const Vector& v) {
  return (v[0] + v[2]) + (v[1] + v[3]);
}

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// body(four) for every four values, the last ones filled up with zeros.
template <typename Body>
[[gnu::always_inline]] inline void ForFours(std::span<const float> values, Body body) {
  size_t i = 0;
  Floats four;
  for (; i + kLanes <= values.size(); i += kLanes) {
    std::memcpy(&four, &values[i], sizeof four);
    body(four);
  }
  if (i == values.size()) return;
  four = Floats{};
  std::memcpy(&four, &values[i], (values.size() - i) * sizeof(float));
  body(four);
}

struct PowerLanes {
  Doubles x{}, x2{}, x3{}, x4{}, magnitude{};

  [[gnu::always_inline]] void Add(const Floats& values) {
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
  ForFours(row, [&](const Floats& four) TARE_INTO_CALLER { lanes.Add(four); });
  return {Sum(lanes.x), Sum(lanes.x2), Sum(lanes.x3), Sum(lanes.x4), Sum(lanes.magnitude)};
}

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

float Largest(std::span<const float> values) {
  Floats largest{};
  ForFours(values, [&](const Floats& v) {
    const Floats magnitude = Magnitudes(v);
    largest = magnitude > largest ? magnitude : largest;
  });
  float all = 0.0f;
  for (size_t lane = 0; lane < kLanes; ++lane) all = std::max(all, largest[lane]);
  return all;
}

// ln x of normal x > 0 to within 2 ulp: Moshier's polynomial (cephes, logf.c) of the mantissa in [sqrt(1/2), sqrt(2)).
Floats Logarithm(const Floats& x) {
  constexpr int32_t kHalfRoot = 0x3f3504f3;  // bits of sqrt(1/2)
  // A negative x, which captured maps may have, gives any value.
  const Ints shifted = std::bit_cast<Ints>(std::bit_cast<Words>(x) - uint32_t{kHalfRoot});
  const Ints exponent = shifted >> 23;
  const Floats m = std::bit_cast<Floats>((shifted & 0x7fffff) + kHalfRoot) - 1.0f;
  const Floats e = __builtin_convertvector(exponent, Floats);
  Floats y = m * 7.0376836292e-2f - 1.1514610310e-1f;
  for (const float c : {1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f,
                        -2.4999993993e-1f, 3.3333331174e-1f}) {
    y = y * m + c;
  }
  const Floats square = m * m;
  y = y * m * square - e * 2.12194440e-4f - square * 0.5f;
  return m + y + e * 0.693359375f;
}

struct Under {
  int32_t entries = 0;
  double mass = 0.0;
};

// The block holds at most kSparsityBlock values: sixteen of a lane add in f32, to within 16 * 2^-24.
Under CountUnder(std::span<const float> block, float threshold) {
  Ints entries{};
  Floats mass{};
  ForFours(block, [&](const Floats& v) {
    const Floats magnitude = Magnitudes(v);
    const Ints under = magnitude < threshold;
    entries -= under;
    mass += std::bit_cast<Floats>(std::bit_cast<Ints>(magnitude) & under);
  });
  const auto filled = static_cast<int32_t>((kLanes - block.size() % kLanes) % kLanes);
  return {Sum(entries) - (threshold > 0.0f ? filled : 0), Sum(mass)};
}

}  // namespace

// The bits are equal on every machine: the number of lanes is fixed, and no product is fused with a sum.
PowerSums SumPowers(std::span<const float> row) {
  PowerSums sums;
  InWidestVectors([&]() TARE_INTO_CALLER { sums = SumRow(row); });
  return sums;
}

Moments MomentsOf(std::span<const float> row, const PowerSums& sums, size_t values) {
  const auto n = static_cast<double>(values);
  if (!(65 * sums.x * sums.x > 64 * n * sums.x2)) return {n, sums.x, sums.x2, sums.x3, sums.x4};
  const double centre = Centre(sums.x / n);
  double x = 0, x2 = 0, x3 = 0, x4 = 0;
  for (const float value : row) {
    if (!std::isfinite(value)) continue;
    const double above = value - centre, square = above * above;
    x += above, x2 += square, x3 += square * above, x4 += square * square;
  }
  return {n, x, x2, x3, x4, centre};
}

void Moments::Add(const Moments& other) {
  if (count == 0) centre = other.centre;
  const long double d = other.centre - centre, n = other.count;
  x4 += other.x4 + d * (4 * other.x3 + d * (6 * other.x2 + d * (4 * other.x + d * n)));
  x3 += other.x3 + d * (3 * other.x2 + d * (3 * other.x + d * n));
  x2 += other.x2 + d * (2 * other.x + d * n);
  x += other.x + d * n;
  count += n;
}

long double Moments::SecondCentral() const {
  const long double mean = x / count;
  return std::max(0.0L, x2 / count - mean * mean);
}

long double Moments::FourthCentral() const {
  const long double mean = x / count;
  return std::max(0.0L, x4 / count - mean * (4 * (x3 / count) - mean * (6 * (x2 / count) - 3 * mean * mean)));
}

double Moments::Mean() const { return count == 0 ? kUndefined : static_cast<double>(centre + x / count); }
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
  const long double s2 = SecondCentral() * count / (count - 1), c = centre;
  const long double about_0 = x4 / count + c * (4 * x3 / count + c * (6 * x2 / count + c * (4 * x / count + c)));
  return s2 == 0 ? kUndefined : static_cast<double>(std::max(0.0L, about_0 / (s2 * s2) - 3));
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

double Entropy(std::span<const float> probabilities) {
  Doubles sum{};
  ForFours(probabilities, [&](const Floats& p) {
    const Ints normal = p >= std::numeric_limits<float>::min();  // below, p ln p is under 1e-36
    const Floats term = p * Logarithm(p);
    sum -= __builtin_convertvector(std::bit_cast<Floats>(std::bit_cast<Ints>(term) & normal), Doubles);
  });
  return Sum(sum);
}

double NegativeMass(std::span<const float> row) {
  double sum = 0.0;
  for (const float v : row) sum += v < 0.0f ? -static_cast<double>(v) : 0.0;
  return sum;
}

Sparsity MeasureSparsity(std::span<const float> row) {
  Sparsity sparsity;
  const float largest = Largest(row);
  for (; !row.empty(); row = row.subspan(std::min<size_t>(row.size(), kSparsityBlock))) {
    const std::span<const float> block = row.first(std::min<size_t>(row.size(), kSparsityBlock));
    const float block_largest = Largest(block);
    ++sparsity.blocks;
    for (size_t i = 0; i < kSparsityShares.size(); ++i) {
      const auto threshold = static_cast<float>(kSparsityShares[i] * largest);
      const Under under = CountUnder(block, threshold);
      sparsity.entries_under[i] += under.entries;
      sparsity.entry_mass[i] += under.mass;
      if (block_largest < threshold) {
        ++sparsity.blocks_under[i];
        sparsity.block_mass[i] += under.mass;
      }
    }
  }
  return sparsity;
}

}  // namespace tare
