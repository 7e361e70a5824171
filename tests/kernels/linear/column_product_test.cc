// SPDX-License-Identifier: Apache-2.0
// Weights that are stored by columns, through the projector, against double sums (tests/support/dense_problem.h).
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/linear/projector.h"
#include "quant/base/parallel.h"
#include "tests/support/dense_problem.h"
#include "tests/support/emulated.h"

namespace tare::column_product_test {
namespace {

using dense_problem::ByColumns, dense_problem::Case, dense_problem::ExpectRight, dense_problem::kCases,
    dense_problem::Problem;

TEST(ColumnProduct, IsRightForEveryWeightType) {
  for (const Math math : {Math::kF32, Math::kBf16}) {
    if (!HasProducts(math)) continue;
    Projector projector(math);
    for (const WeightType type : {WeightType::kF32, WeightType::kBf16, WeightType::kF16}) {
      for (const Case& c : kCases) {
        if (c.rows == 1 || (math == Math::kBf16 && type != WeightType::kBf16)) continue;
        SCOPED_TRACE(testing::Message() << c.rows << " x " << c.out << " x " << c.in << " type "
                                        << static_cast<int>(type) << " math " << static_cast<int>(math));
        Problem p = ByColumns(c, type);
        const Projection projection{p.weight, p.bias.data(), p.y.data()};
        projector.Project(p.x.data(), c.rows, {&projection, 1});
        ExpectRight(p, c, true, math == Math::kBf16 ? 0x1p-8 : 0);
      }
    }
  }
}

TEST(ColumnProduct, SameBitsOnAnyNumberOfThreads) {
  const Case c = kEmulated ? Case{30, 300, 200} : Case{300, 1100, 704};
  std::vector<float> first;
  for (const int threads : {1, 2, 5}) {
    SetThreads(threads);
    Projector projector(Math::kF32);
    Problem p = ByColumns(c, WeightType::kBf16);
    const Projection projection{p.weight, p.bias.data(), p.y.data()};
    projector.Project(p.x.data(), c.rows, {&projection, 1});
    const std::vector<float> y(p.y.data(), p.y.data() + c.rows * c.out);
    if (first.empty()) first = y;
    EXPECT_EQ(std::memcmp(first.data(), y.data(), y.size() * sizeof(float)), 0) << threads << " threads";
  }
  SetThreads(0);
}

}  // namespace
}  // namespace tare::column_product_test
