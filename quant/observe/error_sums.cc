// SPDX-License-Identifier: Apache-2.0
#include "quant/observe/error_sums.h"

#include <cmath>
#include <cstddef>
#include <limits>

#include "quant/base/error.h"

namespace tare {
namespace {

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
