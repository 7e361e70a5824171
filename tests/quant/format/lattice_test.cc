// SPDX-License-Identifier: Apache-2.0
// Against the definition: all vectors of half-odd values, shifted, and a search through all points in double.
#include "quant/format/grid.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "tests/support/random_quantized.h"

namespace tare::lattice_test {
namespace {

using Point = std::array<float, kLatticeWidth>;

Point PointOf(uint32_t code) {
  Point point;
  LatticePoint(static_cast<uint16_t>(code), point.data());
  return point;
}

TEST(Lattice, EveryCodeIsAPointOfItsOwn) {
  std::set<Point> points;
  for (uint32_t code = 0; code < 65536; ++code) {
    const Point point = PointOf(code);
    points.insert(point);
    EXPECT_EQ(LatticeCode(point.data()), static_cast<uint16_t>(code));
  }
  EXPECT_EQ(points.size(), 65536u);
}

// E8 is what of Z^8 and of Z^8 + 1/2 has an even sum. With the shift of -1/4 points are in E8 + 1/4 too: they differ
// from those by 1/2 in every value.
TEST(Lattice, PointsLieInE8ShiftedByAQuarter) {
  for (uint32_t code = 0; code < 65536; ++code) {
    double sum = 0, squares = 0;
    bool halves = true, wholes = true;
    for (const float x : PointOf(code)) {
      const double y = double{x} - 0.25;
      halves = halves && std::fabs(y - std::floor(y) - 0.5) == 0;
      wholes = wholes && y == std::floor(y);
      sum += y;
      const double shifted = double{x} - ((code & 0x8000) != 0 ? -0.25 : 0.25);
      squares += shifted * shifted;
    }
    EXPECT_TRUE((halves || wholes) && std::fmod(std::fabs(sum), 2.0) == 0) << code;
    EXPECT_LE(squares, 12) << code;
  }
}

// All magnitudes whose squares sum to at most 10, and 29 of those with 12.
TEST(Lattice, Entries) {
  std::set<std::vector<float>> inner, outer;
  for (size_t entry = 0; entry < 256; ++entry) {
    const std::span<const float> row = LatticeMagnitudes().subspan(entry * kLatticeWidth, kLatticeWidth);
    float squares = 0;
    for (const float m : row) squares += m * m;
    (squares <= 10 ? inner : outer).insert({row.begin(), row.end()});
    EXPECT_TRUE(squares <= 10 || squares == 12);
    EXPECT_EQ(squares <= 10, entry < 227);
  }
  EXPECT_EQ(inner.size(), 227u);
  EXPECT_EQ(outer.size(), 29u);
}

double DistanceOf(const float* x, const Point& point) {
  double sum = 0;
  for (size_t i = 0; i < point.size(); ++i)
    sum += (double{x[i]} - double{point[i]}) * (double{x[i]} - double{point[i]});
  return sum;
}

// f32 sums of eight terms, each below 3 |x|: two points whose squared distances differ by less may be taken for equal.
void ExpectNearest(const std::vector<float>& x) {
  double least = std::numeric_limits<double>::infinity(), size = 1;
  for (uint32_t code = 0; code < 65536; ++code) least = std::min(least, DistanceOf(x.data(), PointOf(code)));
  for (const float value : x) size += std::fabs(double{value}) + double{value} * double{value};
  Point got;
  NearestLatticePoint(x.data(), got.data());
  EXPECT_TRUE(LatticeCode(got.data()));
  EXPECT_LE(DistanceOf(x.data(), got), least + 64 * 0x1p-24 * size);
}

TEST(Lattice, NearestIsTheSearchsThroughAllPoints) {
  for (const float size : {0.1f, 1.0f, 2.0f, 30.0f}) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      std::vector<float> x = RandomNormal(kLatticeWidth, seed);
      for (float& value : x) value *= size;
      ExpectNearest(x);
    }
  }
  ExpectNearest(std::vector<float>(8, 0.0f));
  ExpectNearest(std::vector<float>(8, 1e20f));
  ExpectNearest({-1e20f, 0, 0, 0, 0, 0, 0, 1});
}

TEST(Lattice, PointsAreNearestToThemselves) {
  for (uint32_t code = 0; code < 65536; code += 17) {
    const Point point = PointOf(code);
    Point got;
    NearestLatticePoint(point.data(), got.data());
    EXPECT_EQ(got, point) << code;
  }
}

TEST(Lattice, OtherValuesHaveNoCode) {
  Point point = PointOf(12345);
  point[3] += 1;  // an odd sum
  EXPECT_FALSE(LatticeCode(point.data()));
  for (const float bad : {0.0f, 0.5f, 3.25f, 1e20f, -1e20f, INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
    point = PointOf(12345);
    point[7] = bad;
    EXPECT_FALSE(LatticeCode(point.data())) << bad;
  }
  point.fill(2.75f);  // too far out
  EXPECT_FALSE(LatticeCode(point.data()));
}

}  // namespace
}  // namespace tare::lattice_test
