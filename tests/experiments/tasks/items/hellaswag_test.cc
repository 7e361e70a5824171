// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/hellaswag.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/file/strict_json.h"
#include "tests/support/golden.h"

namespace tare::hellaswag_test {
namespace {

using Cases = std::vector<std::pair<std::string, std::string>>;

Cases Read(const char* key) { return ReadJson(TARE_SOURCE_DIR "/tests/data/text/hellaswag.json").at(key).get<Cases>(); }

TEST(HellaswagText, PreparesAsTheHarness) {
  for (const auto& [text, prepared] : Read("preprocess")) EXPECT_EQ(PrepareHellaswag(text), prepared) << text;
}

TEST(HellaswagText, CapitalizesAsPython) {
  for (const auto& [text, capitalized] : Read("capitalize")) EXPECT_EQ(Capitalize(text), capitalized) << text;
}

TEST(HellaswagText, ContextIsActivityAndBothHalves) {
  EXPECT_EQ(HellaswagContext("Baking", "She mixes. [step] Then", "THE dough RISES"),
            "Baking: She mixes. Then The dough rises");
  EXPECT_EQ(HellaswagContext("Baking", "She mixes.", ""), "Baking: She mixes.");
}

}  // namespace
}  // namespace tare::hellaswag_test
