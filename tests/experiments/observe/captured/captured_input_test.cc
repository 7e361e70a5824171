// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
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
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("got 1 arrays, none named after a site (the first: x)"), HasSubstr("--axes"))));
}

TEST_F(CapturedInputTest, TwoNamesOfOneLayerAreRefused) {
  const TestArray a = SomeArray({2, 3, 4}), w = SomeArray({4, 4});
  EXPECT_THAT(Call([&] { Load({{{"layer_out.1", a}, {"layer_out.00", a}, {"layer_out.0", a}}}); }),
              ThrowsMessage<Error>(HasSubstr("f0.safetensors: got layer_out.0 and layer_out.00, expected one array")));
  EXPECT_THAT(Call([&] { Load({{{"q_proj.w.3", w}, {"q_proj.w.003", w}}}); }),
              ThrowsMessage<Error>(HasSubstr("got q_proj.w.003 and q_proj.w.3, expected one array")));
}

}  // namespace
}  // namespace tare::captured_input_test
