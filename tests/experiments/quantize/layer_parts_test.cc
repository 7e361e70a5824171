// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/layer_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/random_quantized.h"

namespace tare {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const Provenance kJob{
    .plan = "p", .plan_hash = "h", .method = "gptq", .source = "m", .source_sha256 = "s", .calibration = ""};

class LayerPartsTest : public testing::Test {
 protected:
  void Keep(LayerParts& parts, int layer) {
    parts.Keep(layer, kJob, "{}", [&](QuantizedCheckpointWriter& part) {
      part.AddMatrix("w", matrix_.view(), {.kind = Granularity::Kind::kChannel});
    });
  }
  const TemporaryFolder folder_;
  const QuantizedMatrixBuffer matrix_ = RandomQuantized(Format::kInt8, 4, 64, 64, 1);
};

TEST_F(LayerPartsTest, WhatIsKeptIsThereForAResumedJob) {
  LayerParts first(folder_ / "q.h5", EarlierParts::kDeleted);
  EXPECT_FALSE(first.Has(2));
  Keep(first, 2);
  EXPECT_TRUE(first.Has(2));
  const LayerParts resumed(folder_ / "q.h5", EarlierParts::kTakenUp);
  EXPECT_FALSE(resumed.Has(1));
  ASSERT_TRUE(resumed.Has(2));
  const QuantizedCheckpoint layer = resumed.Layer(2, kJob, "{}");
  EXPECT_EQ(layer.matrices().at("w").out, 4);
  Provenance other = kJob;
  other.method = "rtn";
  EXPECT_THAT([&] { resumed.Layer(2, other, "{}"); },
              ThrowsMessage<Error>(HasSubstr("layer-2.h5: belongs to another job")));
}

TEST_F(LayerPartsTest, ANewJobDeletesWhatLiesThereOnceItKeepsSomething) {
  LayerParts first(folder_ / "q.h5", EarlierParts::kDeleted);
  Keep(first, 0);
  LayerParts second(folder_ / "q.h5", EarlierParts::kDeleted);
  EXPECT_FALSE(second.Has(0));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "q.h5.parts" / "layer-0.h5"));
  Keep(second, 1);
  EXPECT_TRUE(second.Has(1));
  EXPECT_FALSE(second.Has(0));
}

TEST_F(LayerPartsTest, NothingIsLeftButWhatIsNotOurs) {
  LayerParts parts(folder_ / "q.h5", EarlierParts::kDeleted);
  Keep(parts, 0);
  PutFile(parts.Prepared(), "x");
  parts.Remove();
  EXPECT_TRUE(folder_.Names().empty());
  Keep(parts, 0);
  PutFile(folder_ / "q.h5.parts" / "mine.txt", "x");
  parts.Remove();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "q.h5.parts" / "mine.txt"));
  EXPECT_FALSE(parts.Has(0));
}

TEST_F(LayerPartsTest, AFolderThatCannotBeMadeIsRefused) {
  PutFile(folder_ / "file", "");
  LayerParts parts(folder_ / "file" / "q.h5", EarlierParts::kDeleted);
  EXPECT_THAT([&] { parts.Prepared(); }, ThrowsMessage<Error>(HasSubstr("cannot be created")));
}

}  // namespace
}  // namespace tare
