// SPDX-License-Identifier: Apache-2.0
#include "quant/plan/site_key.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

// Statistics files hold their rows in this order.
TEST(SiteKey, WhatIsOfNoHeadOrMapComesFirst) {
  EXPECT_LT((SiteKey{Site::kQ, 0}), (SiteKey{Site::kQ, 0, 0}));
  EXPECT_LT((SiteKey{Site::kQ, 0, 1}), (SiteKey{Site::kQ, 0, 1, 1}));
  EXPECT_LT((SiteKey{Site::kQ, 0, 1, 2}), (SiteKey{Site::kQ, 0, 2}));
  EXPECT_LT((SiteKey{Site::kQ, 0, 9, 2}), (SiteKey{Site::kQ, 1}));
  EXPECT_LT((SiteKey{Site::kQ}), (SiteKey{Site::kQ, 0}));
}

TEST(SiteKey, TextNamesWhatThereIs) {
  EXPECT_EQ(TextOf({Site::kEmbed}), "embed");
  EXPECT_EQ(TextOf({Site::kUpProjW, 3}), "layer 3, up_proj.w");
  EXPECT_EQ(TextOf({Site::kQ, 3, 1, 2}), "layer 3, head 1, map 2, q");
}

}  // namespace
}  // namespace tare
