// SPDX-License-Identifier: Apache-2.0
// One token against double sums over the dequantized weights.
#include "kernels/linear/one_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/round.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"
#include "tests/support/wrong_linear.h"

namespace tare::one_token_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

struct Case {
  int64_t out, in, group;
};
constexpr Case kCases[] = {{1, 1, 1},    {65, 17, 17}, {64, 64, 64},   {130, 256, 64}, {63, 300, 300},
                           {64, 96, 32}, {70, 48, 16}, {70, 384, 128}, {128, 480, 96}, {3, 1000, 1000}};

std::vector<float> Project(const std::vector<float>& x, const PackedMatrix& w, const float* bias) {
  std::vector<float> y(static_cast<size_t>(w.out() + 1), -7.0f);
  OneToken token(w.in(), OneToken::BlockOf(w));
  token.Load(x.data());
  token.Project(w, bias, y.data());
  EXPECT_EQ(y.back(), -7.0f);
  y.pop_back();
  return y;
}

TEST(OneToken, EveryFormatAndShapeAgainstDouble) {
  for (const Case& c : kCases) {
    std::vector<Format> formats{Format::kMxFp4, Format::kNvFp4, Format::kE8P};
    formats.insert(formats.end(), std::begin(kWeightFormats), std::end(kWeightFormats));
    for (const Format& format : formats) {
      const int block_of_format = Info(format).block;
      const int64_t group = block_of_format > 0 ? block_of_format : c.group;
      if (c.in % group != 0 || group % Info(format).together != 0) continue;
      const QuantizedMatrixBuffer w = IsInteger(format) ? RandomQuantized(format, c.out, c.in, group, 1)
                                                        : RoundedNormal(format, c.out, c.in, group, 1);
      const PackedMatrix packed(w.view());
      std::vector<float> x = RandomNormal(static_cast<size_t>(c.in), 2);
      x[0] = 1000.0f;  // an outlier, which its block alone pays for
      const std::vector<float> bias = RandomNormal(static_cast<size_t>(c.out), 3);
      const std::vector<float> y = Project(x, packed, bias.data());
      ASSERT_EQ(WrongToken(x.data(), w.view(), packed, bias.data(), y.data()), "")
          << Name(format) << " " << c.out << " x " << c.in;
    }
  }
}

// x = 128 hi + lo with small integers: the sums, and so y, are exact.
TEST(OneToken, SumsAreExact) {
  for (const Format& format : kWeightFormats) {
    QuantizedMatrixBuffer w = RandomQuantized(format, 64, 64, 64, 4);
    for (int64_t n = 0; n < 64; ++n) w.Scales(n)[0] = 1;
    std::vector<float> x(64);
    for (int i = 0; i < 64; ++i) x[i] = static_cast<float>((i * 577) % 32513 - 16256);
    x[5] = 16256;
    const std::vector<float> y = Project(x, PackedMatrix(w.view()), nullptr);
    std::vector<float> row(64);
    for (int64_t n = 0; n < 64; ++n) {
      DequantizeRow(w.view(), n, row.data());
      int64_t high = 0, low = 0;
      for (int i = 0; i < 64; ++i) {
        const int code = static_cast<int>(x[i]), h = (code + 64) >> 7;
        high += static_cast<int64_t>(row[i]) * h;
        low += static_cast<int64_t>(row[i]) * (code - 128 * h);
      }
      const double exact = 128.0 * static_cast<double>(high) + static_cast<double>(low);
      ASSERT_NEAR(y[n], exact, std::abs(exact) * 0x1p-23) << Name(format) << " " << n;
    }
  }
}

TEST(OneToken, ZerosAndSameBitsOnAnyNumberOfThreads) {
  const QuantizedMatrixBuffer w = RandomQuantized(Format::kInt4, 700, 192, 64, 5);
  const PackedMatrix packed(w.view());
  EXPECT_THAT(Project(std::vector<float>(192, 0.0f), packed, nullptr), testing::Each(0.0f));
  const std::vector<float> x = RandomNormal(192, 6);
  SetThreads(1);
  const std::vector<float> first = Project(x, packed, nullptr);
  for (const int threads : {2, 7}) {
    SetThreads(threads);
    EXPECT_EQ(Project(x, packed, nullptr), first);
  }
  SetThreads(0);
}

// Whatever other tokens come with it, and more in an earlier call; the matrices' blocks differ.
TEST(OneTokenProjector, EachTokenHasTheBitsThatItHasAlone) {
  const QuantizedMatrixBuffer a = RandomQuantized(Format::kInt4, 130, 192, 64, 7),
                              b = RandomQuantized(Format::kInt8, 65, 192, 32, 8);
  const PackedMatrix first(a.view()), second(b.view());
  const std::vector<float> bias = RandomNormal(130, 9);
  OneTokenProjector projector;
  for (const int64_t tokens : {kFewTokens, int64_t{1}, int64_t{3}}) {
    const std::vector<float> x = RandomNormal(static_cast<size_t>(tokens * 192), 10);
    std::vector<float> y(static_cast<size_t>(tokens * 130)), z(static_cast<size_t>(tokens * 65));
    projector.Project(x.data(), tokens,
                      std::vector<QuantizedProjection>{{&first, bias.data(), y.data()}, {&second, nullptr, z.data()}});
    for (int64_t t = 0; t < tokens; ++t) {
      const std::vector<float> alone(x.begin() + t * 192, x.begin() + (t + 1) * 192);
      EXPECT_THAT(Project(alone, first, bias.data()),
                  testing::ElementsAreArray(y.begin() + t * 130, y.begin() + (t + 1) * 130));
      EXPECT_THAT(Project(alone, second, nullptr),
                  testing::ElementsAreArray(z.begin() + t * 65, z.begin() + (t + 1) * 65));
    }
  }
}

TEST(OneToken, NotFiniteIsNamed) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    std::vector<float> x(70, 1.0f);
    x[69] = bad;
    EXPECT_THAT(Call([&] { OneToken(70, 64).Load(x.data()); }), ThrowsMessage<Error>(HasSubstr("input 69")));
  }
}

}  // namespace
}  // namespace tare::one_token_test
