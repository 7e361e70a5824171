// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/attribution/map_errors.h"

#include <cmath>

namespace tare {
namespace {

// v P_j (S2 - P_j)
struct Flattening {
  double variance = 0, squares = 0;
  double At(double p) const { return variance * p * (squares - p); }
};

double ErrorAt(const MapRow& row, size_t j) { return double{row.noisy_map[j]} - double{row.map[j]}; }

Flattening AddMap(const MapRow& row, MapSums& sums) {
  const size_t n = row.map.size();
  double mean = 0, squares = 0, shiftless = 0, bias = 0;
  for (size_t j = 0; j < n; ++j) mean += (double{row.noisy_logits[j]} - double{row.logits[j]}) / static_cast<double>(n);
  for (size_t j = 0; j < n; ++j) {
    const double e = double{row.noisy_logits[j]} - double{row.logits[j]};
    squares += e * e;
    shiftless += (e - mean) * (e - mean);
    bias += std::expm1(e - mean) / static_cast<double>(n);
  }
  Flattening flattening{.variance = n > 1 ? shiftless / static_cast<double>(n - 1) : 0};
  for (const float p : row.map) flattening.squares += double{p} * double{p};
  sums.keys += static_cast<double>(n);
  sums.logit_squares += squares;
  sums.shiftless_squares += shiftless;
  sums.rows += 1;
  sums.exp_bias += bias;
  sums.half_variance += flattening.variance / 2;
  sums.map_squares += flattening.squares;
  for (size_t j = 0; j < n; ++j) {
    const double p = row.map[j], error = ErrorAt(row, j);
    sums.error_squares += error * error;
    sums.peak += error * p;
    sums.peak_formula += flattening.At(p) * p;
  }
  return flattening;
}

constexpr double MapSums::* kMapSums[] = {&MapSums::keys,        &MapSums::logit_squares, &MapSums::shiftless_squares,
                                          &MapSums::rows,        &MapSums::exp_bias,      &MapSums::half_variance,
                                          &MapSums::map_squares, &MapSums::error_squares, &MapSums::peak,
                                          &MapSums::peak_formula};
constexpr double DifferenceSums::* kDifferenceSums[] = {&DifferenceSums::first_squares, &DifferenceSums::second_squares,
                                                        &DifferenceSums::common,        &DifferenceSums::map_squares,
                                                        &DifferenceSums::error_squares, &DifferenceSums::peak,
                                                        &DifferenceSums::peak_formula};

}  // namespace

void MapErrors::Add(const MapRow& first) { AddMap(first, maps[0]); }

void MapErrors::Add(const MapRow& first, const MapRow& second, double lambda) {
  const Flattening flat_first = AddMap(first, maps[0]), flat_second = AddMap(second, maps[1]);
  DifferenceSums& d = difference;
  for (size_t j = 0; j < first.map.size(); ++j) {
    const double p1 = first.map[j], p2 = second.map[j], e1 = ErrorAt(first, j), e2 = lambda * ErrorAt(second, j);
    const double value = p1 - lambda * p2, error = e1 - e2;
    d.first_squares += e1 * e1;
    d.second_squares += e2 * e2;
    d.common += e1 * e2;
    d.map_squares += value * value;
    d.error_squares += error * error;
    d.peak += error * value;
    d.peak_formula += (flat_first.At(p1) - lambda * flat_second.At(p2)) * value;
  }
}

MapErrors& MapErrors::operator+=(const MapErrors& other) {
  for (size_t map = 0; map < maps.size(); ++map) {
    for (const auto sum : kMapSums) maps[map].*sum += other.maps[map].*sum;
  }
  for (const auto sum : kDifferenceSums) difference.*sum += other.difference.*sum;
  return *this;
}

}  // namespace tare
