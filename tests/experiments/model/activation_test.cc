// SPDX-License-Identifier: Apache-2.0
// Activations in themselves; their values in models are transformers' (config_keys_test.cc).
#include "experiments/model/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace tare::activation_test {
namespace {

// Two functions, with an up and without, of values at which each branches.
TEST(Activation, GatedOnesAreOneFunctionTimesUp) {
  const std::vector<float> x{-40, -12, -3, -1, -0.3f, 0, 0.2f, 0.7f, 2, 3.5f, 6, 9, 19, 21, 90};
  int names = 0;
  for (const auto& part : std::views::split(ActivationsText(), std::string_view(", "))) {
    const std::string name(part.begin(), part.end());
    const Activation* const f = FindActivation(name);
    ASSERT_NE(f, nullptr) << name;
    std::vector<float> applied = x, gated = x;
    f->apply(applied.data(), x.size());
    f->Gate(gated.data(), std::vector<float>(x.size(), 2).data(), x.size());
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(gated[i], 2 * applied[i], 2e-6 * std::abs(x[i]) + 1e-30) << name << " of " << x[i];
    ++names;
  }
  EXPECT_EQ(names, 22);
}

TEST(Activation, SpellingsOfOneAreOne) {
  EXPECT_EQ(FindActivation("swish"), FindActivation("silu"));
  EXPECT_EQ(FindActivation("gelu_new"), FindActivation("gelu_pytorch_tanh"));
  EXPECT_NE(FindActivation("gelu"), FindActivation("gelu_new"));
  EXPECT_EQ(FindActivation("silu")->Name(), "silu");
  for (const char* other : {"", " ", "prelu", "silu swish", "Silu"}) EXPECT_EQ(FindActivation(other), nullptr) << other;
}

}  // namespace
}  // namespace tare::activation_test
