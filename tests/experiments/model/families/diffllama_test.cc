// SPDX-License-Identifier: Apache-2.0
// lambda against its formula in double, and which heads belong together; parity_test.cc compares the forward pass with
// transformers.
#include "experiments/model/families/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/model/model.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::diffllama_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Sums of 16 products and two exponentials in f32: a few dozen units of values below 4.
TEST(DiffLlamaTest, LambdaIsTheDifferenceOfExponentialsPlusLambdaInit) {
  for (const char* name : {"diffllama-mha", "diffllama-gqa"}) {
    const EditedCheckpoint source(GoldenFolder(name));
    const Model model(GoldenFolder(name));
    for (int layer = 0; layer < model.config().layers; ++layer) {
      const auto dot = [&](const char* a, const char* b) {
        double sum = 0;
        for (size_t i = 0; i < 16; ++i) {
          sum += double{source.tensors.at(Formatted("model.layers.{}.self_attn.lambda_{}", layer, a)).Value(i)} *
                 source.tensors.at(Formatted("model.layers.{}.self_attn.lambda_{}", layer, b)).Value(i);
        }
        return sum;
      };
      const double start = 0.8 - 0.6 * std::exp(-0.3 * layer);
      const double expected = std::exp(dot("q1", "k1")) - std::exp(dot("q2", "k2")) + start;
      EXPECT_NEAR(model.layers()[layer].lambda.at(0), expected, 64 * 0x1p-24 * 4) << name << " layer " << layer;
      EXPECT_FLOAT_EQ(model.layers()[layer].lambda_init.value(), static_cast<float>(start));
      EXPECT_GT(std::abs(expected - start), 1e-3);  // or the four vectors would not matter
    }
  }
}

// 8 query heads over 4 key/value heads: head j has the maps j and j + 4, and V_j, V_{j+4} of the repeated values side
// by side.
TEST(DiffLlamaTest, AHeadHasTwoMapsAndTwoSlicesOfV) {
  const Model model(GoldenFolder("diffllama-gqa"));
  const std::vector<OutputHead>& heads = model.layers()[0].heads;
  ASSERT_EQ(heads.size(), 4u);
  for (int j = 0; j < 4; ++j) {
    EXPECT_EQ(heads[j].q1, j);
    EXPECT_EQ(heads[j].q2, j + 4);
    EXPECT_EQ(heads[j].k1, j / 2);
    EXPECT_EQ(heads[j].k2, j / 2 + 2);
    EXPECT_EQ(heads[j].VSlices(), 2);
  }
}

TEST(DiffLlamaTest, LambdaVectorsAreAsWideAsAHead) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("diffllama-mha"));
  EditedCheckpoint::Tensor& vector = checkpoint.tensors.at("model.layers.2.self_attn.lambda_k2");
  vector.shape = {8};
  vector.bytes.resize(32);
  checkpoint.Write(folder / "m");
  EXPECT_THAT(Call([&] { Model model(folder / "m"); }),
              ThrowsMessage<Error>(HasSubstr("model.layers.2.self_attn.lambda_k2': got shape [8], expected [16]")));
}

}  // namespace
}  // namespace tare::diffllama_test
