// SPDX-License-Identifier: Apache-2.0
// What a caller does wrong at a public entry that works on matrices is an Error: no signal, no abort.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "quant/algorithms/channel_transforms.h"
#include "quant/algorithms/gptq.h"
#include "quant/algorithms/quantease.h"
#include "quant/algorithms/second_moments.h"
#include "quant/algorithms/sign_round.h"
#include "quant/base/message.h"
#include "tests/support/call.h"

namespace tare::quant_misuse_test {
namespace {

constexpr int64_t kIn = 64, kHuge = int64_t{1} << 32;  // whose square is 0 in 64 bits

std::vector<float> Identity() {
  std::vector<float> h(kIn * kIn);
  for (int64_t i = 0; i < kIn; ++i) h[i * (kIn + 1)] = 1;
  return h;
}

// Each constructor from moments, of another number of inputs than they have.
TEST(Misuse, MomentsOfAnotherSizeAreRefused) {
  const std::vector<float> h = Identity();
  for (const auto& [moments, in] : std::vector<std::pair<std::vector<float>, int64_t>>{
           {h, 512}, {h, 63}, {h, -64}, {{}, 0}, {{}, kHuge}, {std::vector<float>(4), kIn}}) {
    EXPECT_THROW(GptqFactor(moments, in, 0.01, "w"), Error) << in;
    EXPECT_THROW(QuantEase(moments, in, 0.01, "w"), Error) << in;
    EXPECT_THROW(SignRound(moments, in, "w"), Error) << in;
    EXPECT_THROW(BothTriangles(moments, in, "w"), Error) << in;
    EXPECT_THROW(OutputError(h, in, moments), Error) << in;
    EXPECT_THROW(AsymmetricTarget(moments, moments, in, 0.01, "w"), Error) << in;
  }
}

TEST(Misuse, OtherArgumentsOfAlgorithmsAreRefused) {
  const std::vector<float> h = Identity(), w(kIn, 1.0f);
  const ReadRow read = [](int64_t, float* values) { std::fill_n(values, kIn, 1.0f); };
  const GroupEnds ends = EndsBy(ClipChoice::kAbsmax, Format::kInt4);
  QuantizedMatrixBuffer matrix(Format::kInt4, 4, kIn, kIn), wider(Format::kInt4, 4, 256, kIn),
      no_integers(Format::kMxFp4, 4, kIn, 32);
  const std::vector<double> magnitudes(4, 1.0);
  std::vector<double> square(4);
  const std::vector<std::pair<std::string, Call>> calls = {
      {"damping below 0", [&] { GptqFactor(h, kIn, -5, "w"); }},
      {"damping NaN", [&] { GptqFactor(h, kIn, 0.0 / 0.0, "w"); }},
      {"none together", [&] { GptqFactor(h, kIn, 0.01, "w", 0); }},
      {"GPTQ of a wider matrix", [&] { GptqFactor(h, kIn, 0.01, "w").Round(read, ends, wider); }},
      {"QuantEase of a wider matrix", [&] { QuantEase(h, kIn, 0.01, "w").Improve(read, 1, wider); }},
      {"SignRound of a wider matrix", [&] { SignRound(h, kIn, "w").Round(read, ends, 1, wider); }},
      {"SignRound of no integers", [&] { SignRound(h, kIn, "w").Round(read, ends, 1, no_integers); }},
      {"SignRound in no step", [&] { SignRound(h, kIn, "w").Round(read, ends, 0, matrix); }},
      {"part of a row", [&] { OutputError(std::span(h).first(10), kIn, h); }},
      {"AWQ of other moments", [&] { AwqEnds(read, wider.view(), h); }},
      {"AWQ's ratio", [&] { AwqFactors(magnitudes, -1); }},
      {"smoothing of other channels", [&] { SmoothingFactors(w, std::span(w).first(3), 0.5); }},
      {"smoothing's alpha", [&] { SmoothingFactors(w, w, 1.5); }},
      {"Cayley of another size", [&] { CayleyStep(3, square, 0.1, square); }},
      {"row beyond", [&] { RoundRowToNearest(w.data(), ClipChoice::kAbsmax, matrix, 99999999); }},
      {"row before", [&] { RoundRowToNearest(w.data(), ends, matrix, -1); }},
      {"row null", [&] { RoundRowToNearest(nullptr, ClipChoice::kAbsmax, matrix, 0); }},
      {"ends of a row beyond", [&] { RoundRowToNearest(w.data(), ends, matrix, 4); }},
      {"scale of a group beyond", [&] { matrix.SetScale(0, 1, {-1, 1}); }},
      {"scale of no matrix", [] { QuantizedMatrixBuffer().SetScale(0, 0, {-1, 1}); }},
  };
  for (const auto& [name, call] : calls) EXPECT_THROW(call(), Error) << name;
}

}  // namespace
}  // namespace tare::quant_misuse_test
