// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::captured_layout_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

CapturedLayout Parse(const std::string& text) {
  const TemporaryFolder folder;
  PutFile(folder / "axes.json", text);
  return CapturedLayout::Load(folder / "axes.json");
}

TEST(CapturedLayout, NamesAndAxesWithoutAFile) {
  const CapturedLayout layout;
  const auto logits = layout.Find({"attn_logits.12", DType::kF32, {2, 3, 5, 7}}, "f");
  ASSERT_TRUE(logits);
  EXPECT_EQ(logits->site, Site::kAttnLogits);
  EXPECT_EQ(logits->layer, 12);
  EXPECT_EQ(logits->sequences, 2);
  EXPECT_EQ(logits->heads, 3);
  EXPECT_EQ(logits->rows, 5);
  EXPECT_EQ(logits->columns, 7);
  EXPECT_EQ(logits->sequence_stride, 105);
  EXPECT_EQ(logits->head_stride, 35);
  const auto embed = layout.Find({"embed", DType::kF32, {5, 8}}, "f");
  ASSERT_TRUE(embed);
  EXPECT_EQ(embed->sequences, 1);
  EXPECT_EQ(embed->heads, 0);
  EXPECT_FALSE(embed->layer);
  EXPECT_EQ(layout.Find({"q_proj.w.0", DType::kF32, {6, 8}}, "f")->rows, 6);
  for (const char* name : {"logits", "attn_logits.", "attn_logits.x", "attn_logits.-1", "embed.0",
                           "attn_logits.99999999999", "attn_logits.1.2"})
    EXPECT_FALSE(layout.Find({name, DType::kF32, {2, 3, 5, 7}}, "f")) << name;
}

TEST(CapturedLayout, AFileDefinesNamesAxesAndMaps) {
  const CapturedLayout layout = Parse(R"({"q": {"name": "h.{layer}.q", "axes": "BTHD", "maps": "interleaved"},
                                          "probs": {"maps": "halves", "mask": "none"}})");
  const auto q = layout.Find({"h.3.q", DType::kF32, {2, 5, 4, 8}}, "f");
  ASSERT_TRUE(q);
  EXPECT_EQ(q->layer, 3);
  EXPECT_EQ(q->rows, 5);
  EXPECT_EQ(q->row_stride, 32);
  EXPECT_EQ(q->head_stride, 8);
  EXPECT_FALSE(layout.Find({"q.3", DType::kF32, {2, 4, 5, 8}}, "f"));
  EXPECT_EQ(layout.Of(Site::kQ).MapOf(3, 4), 2);
  EXPECT_EQ(layout.Of(Site::kQ).MapOf(2, 4), 1);
  EXPECT_EQ(layout.Of(Site::kProbs).MapOf(1, 4), 1);
  EXPECT_EQ(layout.Of(Site::kProbs).MapOf(2, 4), 2);
  EXPECT_FALSE(layout.Of(Site::kK).MapOf(0, 4));
  EXPECT_NE(layout.canonical(), CapturedLayout().canonical());
}

TEST(CapturedLayout, NamesWithoutALayerAreOfLayer0) {
  EXPECT_EQ(CapturedLayout().Find({"q", DType::kF32, {4, 5, 8}}, "f")->layer, 0);
  EXPECT_EQ(CapturedLayout().Find({"attn_logits", DType::kF32, {2, 3, 5, 7}}, "f")->layer, 0);
  const CapturedLayout layout = Parse(R"({"q": {"name": "query", "axes": "THC"}})");
  const auto q = layout.Find({"query", DType::kF32, {5, 4, 8}}, "f");
  ASSERT_TRUE(q);
  EXPECT_EQ(q->layer, 0);
  EXPECT_EQ(q->rows, 5) << "C is D";
  EXPECT_FALSE(layout.Find({"q", DType::kF32, {4, 5, 8}}, "f"));
  EXPECT_EQ(layout.Find({"k", DType::kF32, {4, 5, 8}}, "f")->layer, 0);
}

TEST(CapturedLayout, InvalidLayoutsAreRefused) {
  const std::pair<const char*, const char*> texts[] = {
      {R"([])", "expected an object of sites"},
      {R"({"qq": {}})", "got the key 'qq'"},
      {R"({"q": 1})", "q: got number"},
      {R"({"q": {"axes": "BTHS"}})", "q.axes: got axes 'BTHS', expected the letters of BHTD"},
      {R"({"q": {"axes": "BTH"}})", "got axes 'BTH'"},
      {R"({"q": {"axes": "BTHDC"}})", "got axes 'BTHDD'"},
      {R"({"embed": {"name": "e.{layer}"}})", "expected no {layer} in it"},
      {R"({"q": {"mask": "none"}})", "q.mask: got a key that this site does not have, expected name, axes, maps"},
      {R"({"layer_out": {"maps": "halves"}})", "layer_out.maps"},
      {R"({"q": {"maps": "pairs"}})", "got 'pairs', expected interleaved or halves"},
      {R"({"q": {"axes": 3}})", "q.axes: got number, expected text"}};
  for (const auto& [text, message] : texts)
    EXPECT_THAT(Call([&] { Parse(text); }), ThrowsMessage<Error>(AllOf(HasSubstr("axes.json"), HasSubstr(message))))
        << text;
  const CapturedLayout layout = Parse(R"({"q": {"maps": "halves"}})");
  EXPECT_THAT(Call([&] { (void)layout.Find({"q.0", DType::kF32, {2, 3, 5, 7}}, "f"); }),
              ThrowsMessage<Error>(HasSubstr("f: q.0: got 3 heads, expected an even number")));
  EXPECT_THAT(Call([&] { (void)layout.Find({"k.0", DType::kF32, {5, 7}}, "f"); }),
              ThrowsMessage<Error>(HasSubstr(
                  R"(f: k.0: got shape [5, 7], expected BHTD; try these dimensions, 1 for one head or sequence, )"
                  R"(in another order by --axes with {"k": {"axes": "BHTD"}})")));
  EXPECT_THAT(Call([&] { (void)layout.Find({"lambda.0", DType::kF32, {2, 3}}, "f"); }),
              ThrowsMessage<Error>(HasSubstr("lambda.0: got shape [2, 3], expected BHTD or [H]; try")));
  EXPECT_THAT(Call([&] { (void)layout.Find({"k.0", DType::kF32, {2, 0, 5, 7}}, "f"); }),
              ThrowsMessage<Error>(HasSubstr("expected values")));
}

}  // namespace
}  // namespace tare::captured_layout_test
