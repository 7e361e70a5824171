// SPDX-License-Identifier: Apache-2.0
#include "experiments/plan/key_value_bits.h"

#include <gtest/gtest.h>

#include "experiments/model/sites_of_model.h"
#include "quant/file/json_value.h"

namespace tare::key_value_bits_test {
namespace {

// Two layers of four heads of 32 channels.
ModelSites Sites() {
  return ModelSitesOf(ModelConfig{.family = "diffllama", .layers = 2, .heads = 4, .kv_heads = 4, .head_dim = 32});
}

void ExpectBits(const char* plan, double keys, double values) {
  const std::optional<KeyValueBits> bits = KeyValueBitsOf(Plan::Parse(plan), Plan::Parse(plan), Sites());
  ASSERT_TRUE(bits.has_value()) << plan;
  EXPECT_DOUBLE_EQ(bits->keys, keys) << plan;
  EXPECT_DOUBLE_EQ(bits->values, values) << plan;
}

TEST(KeyValueBits, CountCodesAndWhatTheyShare) {
  ExpectBits("k=int4/token", 4 + 16.0 / 32, 16);
  ExpectBits("k=int2/block32.channel+min,v=int2/group32+min", 2 + 32.0 / 32, 2 + 32.0 / 32);  // KIVI
  ExpectBits("v=int3/group16+zero", 16, 3 + (16.0 + 3) / 16);
  ExpectBits("v=int4/group64", 16, 4 + 16.0 / 32);                       // a group ends with its head
  ExpectBits("v=int4/group20+outliers1", 16, 4 + 2 * (16 + 32) / 32.0);  // 20 and 12
  ExpectBits("k=normal2/token+mean", 3, 16);
  ExpectBits("k=grid(-2 -1 0 1 2)/channel+mean,v=grid(-1 0 1)/token", 3, 2 + 16.0 / 32);  // of an index
  ExpectBits("k=int2/channel+min", 2, 16);                                                // a scale of a whole text
  ExpectBits("k=mxfp4,v=nvfp4", 4 + 8.0 / 32, 4 + 8.0 / 16);
  ExpectBits("k=normal2/token+hadamard+sketch", 2 + 0.5 + 1 + 16.0 / 32, 16);
  ExpectBits("k=int2/channel+min+outliers1", 2 + 0.01 * 32, 16);
  ExpectBits("v=int2/token+outliers1", 16, 2 + 0.5 + 32.0 / 32);  // one of 32
}

TEST(KeyValueBits, AreTheMeanOverLayersAndHeads) {
  ExpectBits("k=int4/channel,k[l1]=int8/channel", 6, 16);
  ExpectBits("v[h0]=int4/channel", 16, 16 - 12.0 / 4);
  ExpectBits("k=int4/channel,k[l0]=f32", 10, 16);
}

// Tare's caches hold scales in 32 bits, and minima and zero points, too; those of groups and blocks in 16.
TEST(KeyValueBits, OfCaches) {
  ExpectBits("cache_k=int8/token,cache_v=bf16", 8 + 32.0 / 32, 16);
  ExpectBits("cache_k=int4/channel,cache_v[l0]=int4/token", 4 + 32.0 / 64, (16 + 5) / 2.0);
  ExpectBits("k=int3/token,cache_k=int8/token,cache_v=f32,v=int4/channel", 9, 4);  // the cache holds int8
  ExpectBits("cache_k=int2/channel+min,cache_v=int2/token+min", 2 + 64.0 / 64, 2 + 64.0 / 32);
  ExpectBits("cache_k=int3/channel+zero,cache_v=int3/token+full", 3 + 64.0 / 64, 3 + 32.0 / 32);
  ExpectBits("cache_k=int2/block32.channel+min,cache_v=int2/group32+min", 3, 3);
  ExpectBits("cache_k=int2/block64.channel+min,cache_v=int4/group64", 2.5, 4.5);  // heads have 32 channels
  ExpectBits("cache_k=int3/block32.channel,cache_v=int3/group32+zero", 3.5, 4);
  const std::optional<KeyValueBits> beside =
      KeyValueBitsOf(Plan::Parse("v=int4/channel"), Plan::Parse("cache_k=int8/token,cache_v=f32"), Sites());
  EXPECT_DOUBLE_EQ(beside.value().keys, 9);
  EXPECT_DOUBLE_EQ(beside.value().values, 4);
}

TEST(KeyValueBits, NoneWithoutARuleOrAWidth) {
  const Plan none, others = Plan::Parse("weights=int4/channel,q=int8/token"), keys = Plan::Parse("k=int4/token");
  EXPECT_FALSE(KeyValueBitsOf(others, none, Sites()));
  EXPECT_FALSE(KeyValueBitsOf(keys, none, ModelSites{}));
  EXPECT_EQ(JsonText(ToJson(KeyValueBits{.keys = 3, .values = 2.5})), R"({"key_bits":3.0,"value_bits":2.5})");
}

}  // namespace
}  // namespace tare::key_value_bits_test
