// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/csv.h"

#include <gtest/gtest.h>

namespace tare {
namespace {

TEST(CsvField, PlainTextStaysAsItIs) {
  EXPECT_EQ(CsvField(""), "");
  EXPECT_EQ(CsvField("choice:needles-4 a.b"), "choice:needles-4 a.b");
}

TEST(CsvField, CommasQuotesAndLineBreaksAreQuoted) {
  EXPECT_EQ(CsvField("a,b"), "\"a,b\"");
  EXPECT_EQ(CsvField("a\"b"), "\"a\"\"b\"");
  EXPECT_EQ(CsvField("a\nb"), "\"a\nb\"");
  EXPECT_EQ(CsvField("\r"), "\"\r\"");
}

}  // namespace
}  // namespace tare
