// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "experiments/observe/captured/captured_statistics.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/call.h"

namespace tare::captured_input_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class CapturedInputTest : public testing::Test {
 protected:
  CapturedInput Load(const std::vector<std::map<std::string, TestArray>>& files) {
    std::vector<std::filesystem::path> paths;
    for (size_t i = 0; i < files.size(); ++i) {
      paths.push_back(folder_ / ("f" + std::to_string(i) + ".safetensors"));
      PutArrays(paths.back(), files[i]);
    }
    return LoadCaptured(paths, CapturedLayout());
  }
  const TemporaryFolder folder_;
};

TEST_F(CapturedInputTest, FilesJoinTheirSequences) {
  const CapturedInput input = Load(
      {{{"layer_out.0", SomeArray({2, 3, 4})}, {"other", SomeArray({1})}}, {{"layer_out.0", SomeArray({1, 5, 4})}}});
  EXPECT_THAT(input.first_sequence, ElementsAre(0, 2));
  EXPECT_THAT(input.lengths, ElementsAre(3, 3, 5));
  EXPECT_THAT(input.left_over, ElementsAre("other"));
  EXPECT_EQ(input.sites.layers, 1);
  EXPECT_EQ(input.sequences_sha256, input.sha256);
}

TEST_F(CapturedInputTest, PaddingIsNotPartOfASequence) {
  const TestArray mask{{3, 4}, {1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0}};
  const CapturedInput input = Load({{{"layer_out.0", SomeArray({3, 4, 2})}, {"attention_mask", mask}}});
  EXPECT_THAT(input.lengths, ElementsAre(3, 2, 0));
  const TestArray hole{{1, 4}, {1, 0, 1, 0}};
  EXPECT_THAT(Call([&] { Load({{{"layer_out.0", SomeArray({1, 4, 2})}, {"attention_mask", hole}}}); }),
              ThrowsMessage<Error>(HasSubstr("sequence 0 has padding inside")));
  EXPECT_THAT(Call([&] { Load({{{"layer_out.0", SomeArray({2, 4, 2})}, {"attention_mask", hole}}}); }),
              ThrowsMessage<Error>(HasSubstr("attention_mask: got shape [1, 4], expected [2, 4]")));
}

TEST_F(CapturedInputTest, InconsistentArraysAreRefused) {
  const TestArray a = SomeArray({2, 3, 4});
  EXPECT_THAT(Call([&] { Load({{{"layer_out.0", a}, {"embed", SomeArray({2, 5, 4})}}}); }),
              ThrowsMessage<Error>(HasSubstr("embed: got 2 sequences of 5 tokens, expected 2 of 3 as in layer_out.0")));
  EXPECT_THAT(Call([&] { Load({{{"layer_out.0", a}}, {{"layer_out.1", a}}}); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("f1.safetensors: got layer_out.1"), HasSubstr("f0.safetensors"))));
  EXPECT_THAT(Call([&] { Load({{{"layer_out.0", a}}, {{"layer_out.0", SomeArray({2, 3, 8})}}}); }),
              ThrowsMessage<Error>(HasSubstr("8 channels, expected layer_out.0 of 0 heads and 4 channels")));
  EXPECT_THAT(Call([&] { Load({{{"x", a}}}); }),
              ThrowsMessage<Error>(AllOf(HasSubstr("got 1 arrays, none named SITE.LAYER (the first: x)"),
                                         HasSubstr(R"(try --axes with {"q": {"name": "NAME.{layer}"}})"))));
}

// What the message says to try is read.
TEST_F(CapturedInputTest, TokensBeforeHeadsAreNamedWhereTheyDoNotFit) {
  const auto arrays = [](const std::string& end) {
    return std::map<std::string, TestArray>{{"q" + end, SomeArray({5, 4, 8})}, {"k" + end, SomeArray({5, 2, 8})}};
  };
  const std::string axes = R"({"k": {"axes": "THD"}, "q": {"axes": "THD"}})";
  EXPECT_THAT(
      Call([&] { Load({arrays("")}); }),
      ThrowsMessage<Error>(HasSubstr("1 sequences of 4 tokens, expected 1 of 2 as in k; try --axes with " + axes)))
      << "heads are taken for tokens";
  PutFile(folder_ / "axes.json", axes);
  const CapturedLayout layout = CapturedLayout::Load(folder_ / "axes.json");
  EXPECT_THAT(LoadCaptured({folder_ / "f0.safetensors"}, layout).lengths, ElementsAre(5));
  EXPECT_THAT(Call([&] { Load({{{"q", SomeArray({5, 4, 8})}, {"k", SomeArray({2, 5, 8})}}}); }),
              ThrowsMessage<Error>(testing::EndsWith(R"(as in k; try --axes with {"q": {"axes": "THD"}})")))
      << "only the odd one";
  EXPECT_THAT(Call([&] { Load({{{"q", SomeArray({4, 9, 8})}, {"k", SomeArray({2, 5, 8})}}}); }),
              ThrowsMessage<Error>(testing::EndsWith("of 9 tokens, expected 1 of 5 as in k")))
      << "no axes make them fit";
  EXPECT_THAT(Call([&] { Load({{{"q", SomeArray({4, 5, 8})}, {"q.0", SomeArray({4, 5, 8})}}}); }),
              ThrowsMessage<Error>(HasSubstr("got q and q.0, expected one array of a site in a layer")));
}

TEST_F(CapturedInputTest, TwoNamesOfOneLayerAreRefused) {
  const TestArray a = SomeArray({2, 3, 4}), w = SomeArray({4, 4});
  EXPECT_THAT(Call([&] { Load({{{"layer_out.1", a}, {"layer_out.00", a}, {"layer_out.0", a}}}); }),
              ThrowsMessage<Error>(HasSubstr("f0.safetensors: got layer_out.0 and layer_out.00, expected one array")));
  EXPECT_THAT(Call([&] { Load({{{"q_proj.w.3", w}, {"q_proj.w.003", w}}}); }),
              ThrowsMessage<Error>(HasSubstr("got q_proj.w.003 and q_proj.w.3, expected one array")));
}

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class CapturedMaskTest : public testing::Test {
 protected:
  // [begin, end) of each query of the first head of the first sequence, as text.
  std::string Seen(const std::string& name, const TestArray& map, const std::string& mask,
                   std::map<std::string, TestArray> others = {}) {
    others[name] = map;
    PutArrays(folder_ / "f.safetensors", others);
    const CapturedFile file = OpenCaptured(ArrayFile::Open(folder_ / "f.safetensors"), CapturedLayout());
    const CapturedArray& array = file.arrays.front();
    const ArrayValues values = file.file->Values(array.array);
    const CapturedMask seen(file, array, values, mask);
    std::string text;
    for (int64_t q = 0; q < array.rows; ++q) {
      const std::span row(&map.values[static_cast<size_t>(q * array.columns)], static_cast<size_t>(array.columns));
      const TokenRange range = seen.Visible(0, q, row, file.tokens[0]);
      text += std::to_string(range.begin) + "-" + std::to_string(range.end) + " ";
    }
    return text;
  }
  const TemporaryFolder folder_;
};

TEST_F(CapturedMaskTest, FindsTheNamedMask) {
  const TestArray map = SomeArray({1, 1, 3, 3});
  EXPECT_EQ(Seen("probs.0", map, "none"), "0-3 0-3 0-3 ");
  EXPECT_EQ(Seen("probs.0", map, "causal"), "0-1 0-2 0-3 ");
  EXPECT_EQ(Seen("attn_logits.0", SomeArray({1, 1, 2, 4}), "causal"), "0-3 0-4 ");
  EXPECT_EQ(Seen("probs.0", map, "m", {{"m", {{3, 3}, {1, 1, 0, 0, 1, 0, 0, 0, 0}}}}), "0-2 1-2 3-3 ");
  EXPECT_EQ(Seen("probs.0", map, "m", {{"m", {{1, 1, 3, 3}, {0, 0, 1, 0, 1, 1, 1, 1, 1}}}}), "2-3 1-3 0-3 ");
}

TEST_F(CapturedMaskTest, LogitsByTheirLowestValue) {
  const float lowest = std::numeric_limits<float>::lowest();
  const TestArray map{{1, 1, 3, 3}, {1, -kInfinity, lowest, 2, -1e30f, lowest + 1e31f, lowest, 3, 0}};
  EXPECT_EQ(Seen("attn_logits.0", map, ""), "0-1 0-2 1-3 ");
}

TEST_F(CapturedMaskTest, MapsByTheZerosAfterAQuery) {
  EXPECT_EQ(Seen("probs.0", {{1, 1, 2, 2}, {1, 0, 0, 1}}, ""), "0-1 0-2 ");
  EXPECT_EQ(Seen("probs.0", {{1, 1, 2, 2}, {.5f, .5f, 0, 1}}, ""), "0-2 0-2 ");
}

TEST_F(CapturedMaskTest, PaddingHidesKeys) {
  EXPECT_EQ(Seen("probs.0", SomeArray({1, 1, 3, 3}), "none", {{"attention_mask", {{1, 3}, {0, 1, 1}}}}),
            "1-3 1-3 1-3 ");
}

TEST_F(CapturedMaskTest, HolesAndOtherShapesAreRefused) {
  const TestArray map = SomeArray({1, 1, 1, 3});
  EXPECT_THAT(Call([&] { Seen("probs.0", map, "m", {{"m", {{1, 3}, {1, 0, 1}}}}); }),
              ThrowsMessage<Error>(HasSubstr("probs.0: sequence 0: query 0 sees keys 0 and 2 but not 1")));
  EXPECT_THAT(Call([&] { Seen("probs.0", map, "m", {{"m", {{3}, {1, 1, 1}}}}); }),
              ThrowsMessage<Error>(HasSubstr("mask m: got shape [3], expected [1, 3] or [1, 1, 3]")));
  EXPECT_THAT(Call([&] { Seen("probs.0", map, "m"); }),
              ThrowsMessage<Error>(HasSubstr("got no array 'm' for its mask")));
}

}  // namespace
}  // namespace tare::captured_input_test
