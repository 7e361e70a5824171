// SPDX-License-Identifier: Apache-2.0
// Against sums in double over rows or outputs. Every product and sum rounds once: n of them are off by at most n 2^-24
// of the sum of the terms' sizes.
#include "kernels/linear/projector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "quant/base/parallel.h"
#include "tests/support/emulated.h"
#include "tests/support/random_quantized.h"

namespace tare::product_gradient_test {
namespace {

struct Sums {
  double value = 0, size = 0;
};

// start, and the sum of a[i] b[i] over n of each, so far apart.
Sums Dot(float start, const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t n) {
  Sums sums{start, std::abs(double{start})};
  for (int64_t i = 0; i < n; ++i) {
    const double product = double{a[i * a_stride]} * double{b[i * b_stride]};
    sums.value += product;
    sums.size += std::abs(product);
  }
  return sums;
}

// One product with its inputs, and what its outputs held before.
struct Case {
  Case(int64_t outs, int64_t ins, int64_t n)
      : out(outs),
        in(ins),
        rows(n),
        x(RandomNormal(static_cast<size_t>(rows * in), 1)),
        dy(RandomNormal(static_cast<size_t>(rows * out), 2)),
        weight(RandomNormal(static_cast<size_t>(out * in), 3)),
        before(RandomNormal(weight.size(), 4)),
        d_weight(before),
        dx(x.size(), NAN) {}

  ProductGradient Asked() {
    return {.dy = dy.data(),
            .x = x.data(),
            .weight = weight.data(),
            .out = out,
            .in = in,
            .d_weight = d_weight.data(),
            .dx = dx.data()};
  }
  void ExpectDone() const {
    SCOPED_TRACE(::testing::Message() << out << " x " << in << ", " << rows << " rows");
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t i = 0; i < in; ++i) {
        const Sums sums = Dot(before[o * in + i], dy.data() + o, out, x.data() + i, in, rows);
        ASSERT_NEAR(d_weight[o * in + i], sums.value, static_cast<double>(rows + 1) * 0x1p-24 * sums.size);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < in; ++i) {
        const Sums sums = Dot(0, dy.data() + r * out, 1, weight.data() + i, in, out);
        ASSERT_NEAR(dx[r * in + i], sums.value, static_cast<double>(out) * 0x1p-24 * sums.size);
      }
    }
  }

  int64_t out, in, rows;
  std::vector<float> x, dy, weight, before, d_weight, dx;
};

TEST(ProductGradient, OfEveryShape) {
  for (const auto& [out, in] :
       {std::pair{int64_t{1}, int64_t{1}}, {5, 40}, {130, 33}, {1, 1025}, {3, 1}, {515, 1026}}) {
    for (const int64_t rows : {1, 3, 64, 515}) {
      if (out * in * rows > (kEmulated ? 1'000'000 : 100'000'000))
        continue;  // seconds; smaller shapes have as many rows
      Case of(out, in, rows);
      const ProductGradient asked = of.Asked();
      AddProductGradients({&asked, 1}, rows);
      of.ExpectDone();
    }
  }
}

TEST(ProductGradient, SeveralAtOnceAndOnlyWhatIsAskedFor) {
  Case first(70, 20, 9), second(20, 30, 9);
  std::vector<ProductGradient> asked{first.Asked(), second.Asked()};
  AddProductGradients(asked, 9);
  first.ExpectDone();
  second.ExpectDone();

  Case alone(8, 8, 9);
  asked = {alone.Asked(), alone.Asked()};
  asked[0].dx = nullptr;
  asked[1].d_weight = nullptr;
  AddProductGradients(asked, 9);
  alone.ExpectDone();
  AddProductGradients(asked, 0);
  alone.ExpectDone();
}

TEST(ProductGradient, ThreadsDoNotShow) {
  const auto run = [](int threads) {
    SetThreads(threads);
    Case of(300, 200, 700);
    const ProductGradient asked = of.Asked();
    AddProductGradients({&asked, 1}, of.rows);
    return std::pair(of.d_weight, of.dx);
  };
  const auto one = run(1), three = run(3);
  SetThreads(0);
  EXPECT_EQ(one, three);
}

}  // namespace
}  // namespace tare::product_gradient_test
