// SPDX-License-Identifier: Apache-2.0
// A number format is one row of kFormats. Every row must work everywhere: parsed by its name, accepted by a plan at
// some site and refused by name at the others, rounded to and from each of its codes, and packed (as integers if it has
// them, and as the value of each code).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/format/format.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "quant/format/stored_code.h"
#include "quant/plan/plan.h"
#include "quant/plan/site_class.h"
#include "tests/support/call.h"

namespace tare::formats_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<FormatInfo> Coded() {
  std::vector<FormatInfo> rows(kFormats.begin(), kFormats.end());
  std::erase_if(rows, [](const FormatInfo& row) { return !HasCodes(row.format); });
  return rows;
}

TEST(Formats, AreFoundByNameAndInTheOrderOfTheEnum) {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    EXPECT_EQ(static_cast<size_t>(kFormats[i].format), i) << kFormats[i].name;
    EXPECT_EQ(ParseFormat(kFormats[i].name), kFormats[i].format) << kFormats[i].name;
  }
}

// Symmetric, or from 0: what the number of bits holds, but for the signed formats' lowest code.
TEST(Formats, HaveTheCodesOfTheirBits) {
  for (const FormatInfo& row : Coded()) {
    if (!IsInteger(row.format)) continue;
    EXPECT_EQ(row.max_code, row.min_code == 0 ? (1 << row.bits) - 1 : (1 << (row.bits - 1)) - 1) << row.name;
    EXPECT_EQ(row.min_code, row.min_code == 0 ? 0 : -row.max_code) << row.name;
  }
}

TEST(Formats, APlanTakesEachAtSomeSiteAndRefusesItByNameAtTheOthers) {
  for (const FormatInfo& row : Coded()) {
    int sites = 0;
    for (const SiteInfo& site : kSites) {
      const Granularity granularity{.kind = ClassOf(site.site).granularities.front(), .n = 0};
      const std::string plan = row.block > 0 ? Formatted("{}={}", site.name, row.name)
                                             : Formatted("{}={}/{}", site.name, row.name, Name(granularity));
      if (ClassOf(site.site).Takes(row.format)) {
        EXPECT_EQ(Plan::Parse(plan).canonical(), plan);
        EXPECT_TRUE(ClassOf(site.site).OfBits(row.bits)) << plan;
        ++sites;
      } else {
        EXPECT_THAT(Call([&] { Plan::Parse(plan); }),
                    ThrowsMessage<Error>(AllOf(HasSubstr(Formatted("got '{}", row.name)), HasSubstr("one of"))));
      }
    }
    EXPECT_GT(sites, 0) << row.name << ": no site takes it (quant/plan/site_class.cc)";
  }
}

// It has no scale to share, and none but caches keep it.
TEST(Formats, Bf16IsOfCachesAlone) {
  EXPECT_EQ(Plan::Parse("cache_k=bf16,cache_v=bf16").canonical(), "cache_k=bf16,cache_v=bf16");
  for (const SiteInfo& site : kSites) {
    if (IsCache(site.site)) continue;
    EXPECT_THAT(Call([&] { Plan::Parse(Formatted("{}=bf16", site.name)); }),
                ThrowsMessage<Error>(AllOf(HasSubstr("got 'bf16"), HasSubstr("one of"))));
  }
}

template <typename Code>
void ExpectPackedOrRefused(const FormatInfo& row) {
  std::vector<Code> codes(static_cast<size_t>(row.max_code - row.min_code + 1));
  std::iota(codes.begin(), codes.end(), static_cast<Code>(row.min_code));
  std::vector<uint8_t> packed(PackedBytes(row.format, codes.size()));
  std::vector<Code> back(codes.size());
  try {
    Pack<Code>(row.format, codes, packed);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(Formatted("pack: got {}, expected", row.name)));
    return;
  }
  Unpack<Code>(row.format, packed, back);
  EXPECT_EQ(back, codes) << row.name;
}

TEST(Formats, EveryCodeIsPackedOrTheFormatRefusedByName) {
  for (const FormatInfo& row : kFormats)
    row.min_code < 0 ? ExpectPackedOrRefused<int8_t>(row) : ExpectPackedOrRefused<uint8_t>(row);
}

// Every code at every place of a group, and a last group that is not full.
TEST(Formats, EveryCodeIsPackedAsWhatItStandsFor) {
  for (const FormatInfo& row : Coded()) {
    if (row.together > 1) continue;  // pack_test.cc
    std::vector<float> values;
    for (const float value : StoredValues(row.format)) {
      if (!std::isnan(value)) values.push_back(value);
    }
    for (size_t turn = 0; turn < kPackGroup; ++turn) {
      std::vector<uint8_t> packed(PackedBytes(row.format, values.size()));
      std::vector<float> back(values.size());
      Pack<float>(row.format, values, packed);
      Unpack<float>(row.format, packed, back);
      ASSERT_EQ(std::memcmp(back.data(), values.data(), values.size() * sizeof(float)), 0) << row.name;
      std::ranges::rotate(values, values.begin() + 1);
    }
    EXPECT_EQ(row.bits == 8, PackedBytes(row.format, 1) == 1) << row.name;
    std::vector<uint8_t> none(PackedBytes(row.format, 1));
    EXPECT_THAT(Call([&] { Pack<float>(row.format, std::vector<float>{0.3f}, none); }),
                ThrowsMessage<Error>(HasSubstr(Formatted("pack {}: got code", row.name))));
  }
}

TEST(Formats, EveryCodesValueRoundsToItself) {
  for (const FormatInfo& row : Coded()) {
    const Scale scale = ScaleFor(3.7f, row.format);
    for (int code = row.min_code; IsInteger(row.format) && code <= row.max_code; ++code)
      EXPECT_EQ(CodeOf(static_cast<float>(code) * scale.scale, scale.inv, row.format), code) << row.name;
  }
}

}  // namespace
}  // namespace tare::formats_test
