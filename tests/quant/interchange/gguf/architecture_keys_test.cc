// SPDX-License-Identifier: Apache-2.0
#include "quant/interchange/gguf/config_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/interchange/gguf/container.h"
#include "tests/support/call.h"
#include "tests/support/gguf_bytes.h"

namespace tare::architecture_keys_test {
namespace {

using namespace gguf;

using testing::HasSubstr;
using testing::ThrowsMessage;

class GgufArchitectureKeys : public testing::Test {
 protected:
  void Open(const GgufBytes& file) {
    bytes_ = file.Bytes();
    content_ = Parse(std::as_bytes(std::span(bytes_)), "f.gguf");
    keys_.emplace(content_.metadata, "a");
  }
  ArchitectureKeys& keys() { return *keys_; }

 private:
  std::string bytes_;
  Content content_;
  std::optional<ArchitectureKeys> keys_;
};

TEST_F(GgufArchitectureKeys, WhatNobodyAskedForIsRefused) {
  Open(GgufBytes().AddNumber("a.known", 3).AddNumber("a.other", 4).AddNumber("b.other", 5));
  EXPECT_EQ(keys().Number("known"), 3);
  EXPECT_THAT(Call([&] { keys().CheckAllUsed(); }), ThrowsMessage<Error>(HasSubstr("f.gguf: a.other: is not supp")));
  keys().Ignore("other");
  EXPECT_NO_THROW(keys().CheckAllUsed());
}

TEST_F(GgufArchitectureKeys, RealsAreTheShortestNumbers) {
  Open(GgufBytes().AddReal("a.eps", 1e-5f).Add("a.huge", 12, GgufBytes::Raw(1e300)));
  EXPECT_EQ(keys().Real("eps"), 1e-5);  // not 9.99999974737875e-06
  EXPECT_EQ(keys().Real("none"), std::nullopt);
  EXPECT_THAT(Call([&] { keys().Real("huge"); }),
              ThrowsMessage<Error>(HasSubstr("a.huge: got 1e+300, expected a num")));
}

TEST_F(GgufArchitectureKeys, WhatIsNeededMustBeThere) {
  Open(GgufBytes().AddNumber("a.none", 0).AddNumber("a.one", 1));
  EXPECT_EQ(keys().Need("one"), 1);
  EXPECT_THAT(Call([&] { keys().Need("none"); }),
              ThrowsMessage<Error>(HasSubstr("a.none: got 0, expected a positive")));
  EXPECT_THAT(Call([&] { keys().Need("no"); }), ThrowsMessage<Error>(HasSubstr("a.no: got nothing, expected a posit")));
}

TEST_F(GgufArchitectureKeys, OtherValuesThanExpectedAreRefused) {
  Open(GgufBytes().AddNumber("a.n", 2).AddReal("a.r", 0.5f));
  EXPECT_NO_THROW(keys().Expect("n", 2, "why"));
  EXPECT_NO_THROW(keys().Expect("missing", 2, "why"));
  EXPECT_NO_THROW(keys().ExpectReal("r", 0.5));
  EXPECT_THAT(Call([&] { keys().Expect("n", 3, "why"); }),
              ThrowsMessage<Error>(HasSubstr("a.n: got 2, expected 3: why")));
  EXPECT_THAT(Call([&] { keys().ExpectReal("r", 1); }), ThrowsMessage<Error>(HasSubstr("a.r: got 0.5, expected 1 (")));
}

TEST_F(GgufArchitectureKeys, ListsAreOneNumberForAllLayers) {
  Open(GgufBytes()
           .Add("a.same", 9, GgufBytes::Numbers<int32_t>(5, {4, 4}))
           .Add("a.negative", 9, GgufBytes::Numbers<int32_t>(5, {-4, -4})));
  EXPECT_TRUE(keys().IsArray("same"));
  EXPECT_EQ(keys().Reals("same", 2), (std::vector<double>{4, 4}));
  EXPECT_EQ(keys().Reals("none", 2), std::vector<double>{});
  EXPECT_THAT(Call([&] { keys().Reals("same", 3); }), ThrowsMessage<Error>(HasSubstr("a.same: got a list of 2, exp")));
  EXPECT_FALSE(keys().IsArray("none"));
  EXPECT_EQ(keys().Number("same"), 4);
  EXPECT_THAT(Call([&] { keys().Number("negative"); }), ThrowsMessage<Error>(HasSubstr("a.negative: got numbers")));
}

}  // namespace
}  // namespace tare::architecture_keys_test
