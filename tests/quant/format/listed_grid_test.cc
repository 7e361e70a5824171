// SPDX-License-Identifier: Apache-2.0
#include "quant/format/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "quant/base/message.h"
#include "quant/format/format.h"
#include "quant/format/round.h"
#include "tests/support/call.h"

namespace tare::listed_grid_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

using Floats = std::vector<float>;

TEST(ListedGrid, IsNumbersWithBlanksOrEndsOfLinesBetween) {
  EXPECT_EQ(ParseGrid("-1 0 1", "f"), (Floats{-1, 0, 1}));
  EXPECT_EQ(ParseGrid("\n-1.000e+00\r\n\t0.25\n", "f"), (Floats{-1, 0.25f}));
  EXPECT_FALSE(std::signbit(ParseGrid("-0 1", "f")[0]));
}

TEST(ListedGrid, InvalidGridsAreRefused) {
  const auto refused = [](const std::string& text, const char* says) {
    EXPECT_THAT(Call([&] { ParseGrid(text, "f"); }), ThrowsMessage<Error>(HasSubstr(says))) << text;
  };
  refused("", "f: got 0 values, expected 2 to 256; try -1 0 1, separated by blanks");
  refused("3", "f: got 1 values, expected 2 to 256");
  refused("1 0", "f, value 2: got 0 after 1, expected rising values, each once; try sorting them");
  refused("0 1 1", "f, value 3: got 1 after 1");
  refused("-0 0", "f, value 2: got 0 after 0");
  refused("0 nan", "f, value 2: got 'nan', expected a finite number in f32; try 0.5 or 1e-3");
  refused("-inf 0", "f, value 1: got '-inf'");
  refused("0 1e39", "f, value 2: got '1e39'");
  refused("0,1", "f, value 1: got '0,1'");
  refused("0 \x01", "f, value 2: got '?'");
  refused("0 1e-31", "f: got 1e-31 as the largest magnitude");
  refused("-1e31 0", "f: got 1e+31 as the largest magnitude");
  std::string many = "0";
  for (int i = 1; i < 256; ++i) many += Formatted(" {}", i);
  EXPECT_EQ(ParseGrid(many, "f").size(), 256u);
  refused(many + " 256", "f: got more values than 256");
}

TEST(ListedGrid, TheNameIsTheList) {
  const Floats values{-1, -0.69619280f, 0, 1e-3f, 0.1f, 1e20f};
  const std::string name = GridName(values);
  EXPECT_EQ(name, "grid(-1 -0.6961928 0 0.001 0.1 1e+20)");
  const Format format = *ParseFormat("grid( -1.0 -0.69619280 0 .001 1e-1 1e20)");
  EXPECT_EQ(Name(format), name);
  EXPECT_EQ(ParseFormat(name), format);
  EXPECT_NE(ParseFormat("grid(0 1)"), format);
  EXPECT_THAT(Call([] { ParseFormat("grid(0 1"); }), ThrowsMessage<Error>(HasSubstr("got no ')'")));
}

TEST(ListedGrid, ItsInfoIsLikeATableRow) {
  const Format format = *ParseFormat("grid(-2 0.5 1)");
  const FormatInfo info = Info(format);
  EXPECT_EQ(info.bits, 2);
  EXPECT_EQ(info.Largest(), 2.0f);
  EXPECT_EQ(info.block, 0);
  EXPECT_FALSE(IsInteger(format));
  EXPECT_FALSE(AsStepCodes(format));
  const std::array<float, 256>& table = format.levels.table();
  EXPECT_EQ(Floats(table.begin(), table.begin() + 3), (Floats{-2, 0.5f, 1}));
  EXPECT_TRUE(std::isnan(table[3]));
  // The scale makes 2 of 8; 3 becomes 0.75, as near to 0.5 as to 1: the lower.
  const Scale scale = ScaleFor(8.0f, format);
  EXPECT_EQ(Rounded(-8.0f, scale.inv, format) * scale.scale, -8.0f);
  EXPECT_EQ(Rounded(3.0f, scale.inv, format) * scale.scale, 2.0f);
  EXPECT_EQ(Rounded(8.0f, scale.inv, format) * scale.scale, 4.0f);
  for (const auto& [values, bits] : {std::pair{4, 2}, {5, 4}, {16, 4}, {17, 6}, {64, 6}, {65, 8}, {256, 8}}) {
    Floats list;
    for (int i = 0; i < values; ++i) list.push_back(static_cast<float>(i));
    EXPECT_EQ(Info(Format(Levels(list))).bits, bits) << values;
  }
}

TEST(Levels, AreEqualByTheirValues) {
  const Levels one(Floats{0, 1}), same(Floats{0, 1}), other(Floats{0, 2});
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  EXPECT_NE(one, Levels());
  EXPECT_EQ(Levels(), Levels());
}

// The sanitizers see a list that is freed twice, never, or while a copy reads it.
TEST(Levels, LiveAsLongAsACopyOnAnyThread) {
  std::vector<Format> formats(2, Format(Levels(Floats{-1, 0, 3})));
  formats[1] = formats[0];
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([format = formats[0]] {
        for (int i = 0; i < 1000; ++i) {
          Format copy = format;
          const Format moved = std::move(copy);
          EXPECT_EQ(moved.levels.values()[2], 3.0f);
        }
      });
    }
    formats[0] = Format::kInt4;
    formats.erase(formats.begin());
  }
  EXPECT_EQ(Name(formats[0]), "grid(-1 0 3)");
}

}  // namespace
}  // namespace tare::listed_grid_test
