// SPDX-License-Identifier: Apache-2.0
#include "experiments/report/drawing/embedded.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/error.h"
#include "tests/quant/file/temporary_folder.h"

namespace tare::embedded_test {
namespace {

TEST(EmbeddedTest, IsTheFileAndANul) {
  const std::string_view css = Embedded("report.css");
  EXPECT_EQ(css, GetFile(TARE_SOURCE_DIR "/experiments/report/page/report.css"));
  EXPECT_EQ(css.data()[css.size()], '\0');
  EXPECT_GT(Embedded("vega.js").size(), 100'000u);
  EXPECT_THROW(Embedded("gone.js"), Error);
}

}  // namespace
}  // namespace tare::embedded_test
