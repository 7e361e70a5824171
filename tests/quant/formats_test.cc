// SPDX-License-Identifier: Apache-2.0
// A number format is one row of kFormats, with or without a suffix. Each must work everywhere: parsed by its name,
// accepted by a plan at some site and refused by name at the others, rounded to and from each of its codes, and packed
// (as integers if it has them, and as the value of each code).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "quant/base/message.h"
#include "quant/format/format.h"
#include "quant/format/pack.h"
#include "quant/format/round.h"
#include "quant/plan/plan.h"
#include "quant/plan/site.h"
#include "tests/support/call.h"

namespace tare::formats_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<Format> Coded() {
  std::vector<Format> formats = SpelledFormats();
  std::erase_if(formats, [](const Format& format) { return !HasCodes(format); });
  return formats;
}

TEST(Formats, AreFoundByName) {
  for (const Format& format : SpelledFormats()) EXPECT_EQ(ParseFormat(Name(format)), format) << Name(format);
}

// Symmetric, or from 0: what the number of bits holds, but for the signed formats' lowest code.
TEST(Formats, HaveTheCodesOfTheirBits) {
  for (const Format& format : Coded()) {
    const FormatInfo row = Info(format);
    if (!IsInteger(format)) continue;
    EXPECT_EQ(row.max_code, row.min_code == 0 ? (1 << row.bits) - 1 : (1 << (row.bits - 1)) - 1) << Name(format);
    EXPECT_EQ(row.min_code, row.min_code == 0 ? 0 : -row.max_code) << Name(format);
  }
}

TEST(Formats, APlanTakesEachAtSomeSiteAndRefusesItByNameAtTheOthers) {
  for (const Format& format : Coded()) {
    const FormatInfo row = Info(format);
    int sites = 0;
    for (const SiteInfo& site : kSites) {
      const Granularity granularity{.kind = ClassOf(site.site).granularities.front(), .n = 0};
      const std::string plan = row.block > 0 ? Formatted("{}={}", site.name, Name(format))
                                             : Formatted("{}={}/{}", site.name, Name(format), Name(granularity));
      if (ClassOf(site.site).Takes(format)) {
        EXPECT_EQ(Plan::Parse(plan).canonical(), plan);
        EXPECT_TRUE(ClassOf(site.site).OfBits(row.bits)) << plan;
        ++sites;
      } else {
        EXPECT_THAT(Call([&] { Plan::Parse(plan); }),
                    ThrowsMessage<Error>(AllOf(HasSubstr(Formatted("got '{}", Name(format))), HasSubstr("one of"))));
      }
    }
    EXPECT_GT(sites, 0) << Name(format) << ": no site takes it (quant/plan/site.cc)";
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
void ExpectPackedOrRefused(const Format& format) {
  const FormatInfo row = Info(format);
  std::vector<Code> codes(static_cast<size_t>(row.max_code - row.min_code + 1));
  std::iota(codes.begin(), codes.end(), static_cast<Code>(row.min_code));
  std::vector<uint8_t> packed(PackedBytes(format, codes.size()));
  std::vector<Code> back(codes.size());
  try {
    Pack<Code>(format, codes, packed);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(Formatted("pack: got {}, expected", Name(format))));
    return;
  }
  Unpack<Code>(format, packed, back);
  EXPECT_EQ(back, codes) << Name(format);
}

TEST(Formats, EveryCodeIsPackedOrTheFormatRefusedByName) {
  for (const Format& format : SpelledFormats())
    Info(format).min_code < 0 ? ExpectPackedOrRefused<int8_t>(format) : ExpectPackedOrRefused<uint8_t>(format);
}

// Every code at every place of a group, and a last group that is not full.
TEST(Formats, EveryCodeIsPackedAsWhatItStandsFor) {
  for (const Format& format : Coded()) {
    const FormatInfo row = Info(format);
    if (row.together > 1) continue;  // pack_test.cc
    std::vector<float> values;
    for (const float value : std::span(StoredValues(format)).first(size_t{1} << row.bits)) {
      if (!std::isnan(value)) values.push_back(value);
    }
    for (size_t turn = 0; turn < kPackGroup; ++turn) {
      std::vector<uint8_t> packed(PackedBytes(format, values.size()));
      std::vector<float> back(values.size());
      Pack<float>(format, values, packed);
      Unpack<float>(format, packed, back);
      ASSERT_EQ(std::memcmp(back.data(), values.data(), values.size() * sizeof(float)), 0) << Name(format);
      std::ranges::rotate(values, values.begin() + 1);
    }
    EXPECT_EQ(row.bits == 8, PackedBytes(format, 1) == 1) << Name(format);
    std::vector<uint8_t> none(PackedBytes(format, 1));
    EXPECT_THAT(Call([&] { Pack<float>(format, std::vector<float>{0.3f}, none); }),
                ThrowsMessage<Error>(HasSubstr(Formatted("pack {}: got code", Name(format)))));
  }
}

TEST(Formats, EveryCodesValueRoundsToItself) {
  for (const Format& format : Coded()) {
    const FormatInfo row = Info(format);
    const Scale scale = ScaleFor(3.7f, format);
    for (int code = row.min_code; IsInteger(format) && code <= row.max_code; ++code)
      EXPECT_EQ(CodeOf(static_cast<float>(code) * scale.scale, scale.inv, format), code) << Name(format);
  }
}

}  // namespace
}  // namespace tare::formats_test
