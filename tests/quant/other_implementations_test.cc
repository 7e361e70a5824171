// SPDX-License-Identifier: Apache-2.0
// Formats compared with gfloat, torchao, ModelOpt and microxcaling on the same blocks, bit for bit
// (tests/data/formats/make_peers.py). If one of them departs from the definition, the number of different values is
// given here and the reason in docs/reference/formats.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/message.h"
#include "quant/file/safetensors.h"
#include "quant/format/round.h"

namespace tare::other_implementations_test {
namespace {

const Safetensors& Golden() {
  static const Safetensors file(TARE_SOURCE_DIR "/tests/data/formats/peers.safetensors");
  return file;
}

struct Blocks {
  std::vector<float> values;
  size_t block = 0;
};

Blocks Read(const TensorView& tensor) {
  std::vector<float> values(tensor.elements());
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return {std::move(values), static_cast<size_t>(tensor.shape.back())};
}

Blocks Inputs(const std::string& set) { return Read(*Golden().Find(set + "/input")); }

// "mxfp4/gfloat,torchao:floor" is the result of both.
Blocks Results(const std::string& set, const std::string& peer) {
  for (const TensorView& tensor : Golden().tensors()) {
    if (tensor.name.starts_with(set + "/") &&
        ("," + tensor.name.substr(set.size() + 1) + ",").contains("," + peer + ","))
      return Read(tensor);
  }
  ADD_FAILURE() << set << " has no " << peer;
  return {};
}

std::vector<float> Ours(const Blocks& x, Format format) {
  const auto absmax = [](auto begin, auto end) {
    return std::fabs(*std::max_element(begin, end, [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
  };
  const float of_tensor = absmax(x.values.begin(), x.values.end());
  std::vector<float> y;
  for (auto at = x.values.begin(); at != x.values.end(); at += static_cast<std::ptrdiff_t>(x.block)) {
    const auto end = at + static_cast<std::ptrdiff_t>(x.block);
    const Scale scale = ScaleFor(absmax(at, end), format, of_tensor);
    std::transform(at, end, std::back_inserter(y),
                   [&](float value) { return Rounded(value, scale.inv, format) * scale.scale; });
  }
  return y;
}

struct Difference {
  int bits = 0, values = 0;  // values: zeros of either sign are equal
  friend bool operator==(const Difference&, const Difference&) = default;
};

void PrintTo(const Difference& d, std::ostream* out) { *out << d.bits << " in bits, " << d.values << " in value"; }

Difference Between(const std::vector<float>& a, const std::vector<float>& b) {
  Difference difference;
  for (size_t i = 0; i < a.size(); ++i) {
    difference.bits += std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i]);
    difference.values += a[i] != b[i];
  }
  return difference;
}

Difference Between(const std::string& set, const std::string& peer, const std::string& ours) {
  return Between(Ours(Inputs(set), *ParseFormat(ours)), Results(set, peer).values);
}

TEST(OtherImplementations, GfloatAndTorchaoMakeTheSameOfMX) {
  for (const std::string name : {"mxfp4", "mxfp6e2m3", "mxfp6e3m2", "mxfp8e4m3", "mxfp8e5m2"}) {
    EXPECT_EQ(Between(name, "gfloat", name), Difference()) << name;
    EXPECT_EQ(Between(name, "torchao:floor", name), Difference()) << name;
    EXPECT_EQ(Between(name, "torchao:ceil", name + ":ceil"), Difference()) << name;
    EXPECT_EQ(Between(name, "torchao:even", name + ":even"), (Difference{32, 32})) << name;  // the largest f32: NaN
    // The ratio in f32 is 2^-127 for what is just above 6 * 2^-127.
    const Difference by_ratio = name == "mxfp4" ? Difference{4, 4} : Difference{};
    EXPECT_EQ(Between(name, "torchao:rceil", name + ":rceil"), by_ratio) << name;
  }
}

// Every block whose scale is not below torchao's smallest, 2^-6: the first three have less.
TEST(OtherImplementations, TorchaoMakesTheSameOfNVFP4) {
  for (const char* set : {"nvfp4.0", "nvfp4.1", "nvfp4.2"}) {
    const Blocks x = Inputs(set);
    std::vector<float> ours = Ours(x, Format::kNvFp4), theirs = Results(set, "torchao").values;
    for (std::vector<float>* values : {&ours, &theirs}) values->erase(values->begin(), values->begin() + 48);
    EXPECT_EQ(Between(ours, theirs), Difference()) << set;
  }
}

struct Departure {
  const char *set, *peer, *ours;
  Difference difference;
};

TEST(OtherImplementations, DepartAsThePageSays) {
  constexpr Departure kDepartures[] = {
      {"mxfp4", "microxcaling:even", "mxfp4", {80, 39}},
      {"mxfp6e2m3", "microxcaling:even", "mxfp6e2m3", {39, 19}},
      {"mxfp6e3m2", "microxcaling:even", "mxfp6e3m2", {48, 15}},
      {"mxfp8e4m3", "microxcaling:even", "mxfp8e4m3", {37, 3}},
      {"mxfp8e5m2", "microxcaling:even", "mxfp8e5m2", {38, 2}},
      {"mxint8", "microxcaling:even", "mxint8", {53, 34}},
      {"mxfp4", "microxcaling:nearest", "mxfp4", {165, 124}},
      {"mxfp6e2m3", "microxcaling:nearest", "mxfp6e2m3", {152, 132}},
      {"mxfp6e3m2", "microxcaling:nearest", "mxfp6e3m2", {173, 140}},
      {"mxfp8e4m3", "microxcaling:nearest", "mxfp8e4m3", {268, 234}},
      {"mxfp8e5m2", "microxcaling:nearest", "mxfp8e5m2", {267, 231}},
      {"mxint8", "microxcaling:nearest", "mxint8", {216, 197}},
      {"mxfp4", "microxcaling:nearest", "mxfp4:ties-away", {82, 41}},
      {"mxfp6e2m3", "microxcaling:nearest", "mxfp6e2m3:ties-away", {45, 25}},
      {"mxfp6e3m2", "microxcaling:nearest", "mxfp6e3m2:ties-away", {52, 19}},
      {"mxfp8e4m3", "microxcaling:nearest", "mxfp8e4m3:ties-away", {37, 3}},
      {"mxfp8e5m2", "microxcaling:nearest", "mxfp8e5m2:ties-away", {38, 2}},
      {"mxint8", "microxcaling:nearest", "mxint8:ties-away", {69, 50}},
      {"mxint8", "gfloat", "mxint8", {39, 4}},
      {"mxfp4", "modelopt", "mxfp4:rceil", {143, 78}},
      {"mxfp4", "modelopt", "mxfp4:rceil:ties-zero", {73, 8}},
      {"mxfp8e4m3", "modelopt", "mxfp8e4m3:rceil", {0, 0}},
      {"nvfp4.0", "modelopt", "nvfp4", {30, 5}},
      {"nvfp4.1", "modelopt", "nvfp4", {40, 14}},
      {"nvfp4.2", "modelopt", "nvfp4", {43, 18}},
  };
  for (const Departure& d : kDepartures)
    EXPECT_EQ(Between(d.set, d.peer, d.ours), d.difference) << d.ours << " and " << d.peer << " of " << d.set;
}

// torchao's levels are the quantiles to four decimals: its rounding on its levels.
TEST(OtherImplementations, TorchaoTakesTheNearestLevel) {
  const std::vector<float> x = Inputs("nf4").values, theirs = Results("nf4", "torchao").values;
  std::vector<float> levels = theirs;
  std::ranges::sort(levels);
  levels.erase(std::ranges::unique(levels).begin(), levels.end());
  ASSERT_EQ(levels.size(), kNf4Levels.size());
  for (size_t i = 0; i < levels.size(); ++i) EXPECT_NEAR(levels[i], kNf4Levels[i], 0.5e-4f + 1e-8f);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(NearestLevel(x[i], levels), theirs[i]) << x[i];
}

TEST(OtherImplementations, SaturateAndKeepNaN) {
  for (const char* name : {"mxfp4", "mxfp6e2m3", "mxfp6e3m2", "mxfp8e4m3", "mxfp8e5m2", "mxint8"}) {
    const std::string set = Formatted("{}.elements", name);
    const std::vector<float> x = Inputs(set).values, theirs = Results(set, "gfloat").values;
    for (size_t i = 0; i < x.size(); ++i) {
      const Grid& grid = Info(*ParseFormat(name)).grid;
      const float ours = Nearest(x[i], grid), other = std::max(theirs[i], -grid.largest);  // gfloat's mxint8 has a -2
      EXPECT_TRUE(ours == other || (std::isnan(ours) && std::isnan(other))) << name << ' ' << x[i];
    }
  }
}

// Blocks of zeros, one outlier, constants, subnormals and ties among them. Where a block's scale is 0 in E4M3,
// fouroversix and NVINT4 make zeros; here it is 2^-9 of the tensor's. IF4's codes of sevenths are there their number.
TEST(OtherImplementations, FourOverSixNvint4AndIf4HaveTheCodesOfTheirAuthors) {
  const Safetensors golden(TARE_SOURCE_DIR "/tests/data/formats/fp4.safetensors");
  const auto read = [&](const std::string& name) { return Read(*golden.Find(name)).values; };
  const std::vector<float> x = read("x");
  const float of_tensor = AbsMax(x);
  constexpr std::pair<const char*, const char*> kPairs[] = {
      {"nvfp4:4over6", "fos_mse"}, {"nvfp4", "static6"}, {"nvint4", "nvint4"}, {"if4", "if4"}};
  for (const auto& [name, peer] : kPairs) {
    const Format format = *ParseFormat(name);
    const std::vector<float> codes = read(std::string(peer) + "_values"), values = read(std::string(peer) + "_dequant");
    int compared = 0;
    for (size_t at = 0; at < x.size(); at += 16) {
      const float* const block = x.data() + at;
      const float clip = BlockEnd(block, 16, format, AbsMax({block, 16}), of_tensor);
      const Scale scale = ScaleFor(clip, format, of_tensor);
      if (std::ranges::all_of(codes.begin() + static_cast<ptrdiff_t>(at),
                              codes.begin() + static_cast<ptrdiff_t>(at) + 16, [](float code) { return code == 0; }))
        continue;
      ++compared;
      for (size_t i = at; i < at + 16; ++i) {
        const float code = Rounded(x[i], scale.inv, format);
        EXPECT_EQ(code, scale.inv < 0 ? codes[i] * 0.8571428571f : codes[i])
            << name << " block " << at / 16 << " value " << x[i];
        EXPECT_NEAR(code * scale.scale, values[i], std::fabs(values[i]) * 0x1p-21f) << name << ' ' << i;
      }
    }
    EXPECT_GT(compared, 15) << name;
  }
}

// Stored, too: a scale's highest bit says that the block's codes are of sevenths, as in 12 of these.
TEST(OtherImplementations, If4HasTheScalesOfItsAuthors) {
  const Safetensors golden(TARE_SOURCE_DIR "/tests/data/formats/fp4.safetensors");
  const std::vector<float> x = Read(*golden.Find("x")).values, values = Read(*golden.Find("if4_dequant")).values;
  const std::span<const std::byte> scales = golden.Find("if4_scale")->bytes;
  QuantizedMatrixBuffer matrix(Format::kIf4, std::ssize(scales), 16, 16, AbsMax(x));
  int sevenths = 0;
  for (int64_t row = 0; row < std::ssize(scales); ++row) {
    RoundRowToNearest(x.data() + 16 * row, ClipChoice::kAbsmax, matrix, row);
    const auto expected = static_cast<uint8_t>(scales[static_cast<size_t>(row)]);
    if (expected == 0) continue;  // as above
    EXPECT_EQ(matrix.view().scale_codes[row], expected) << row;
    sevenths += matrix.view().IsEven(row, 0);
    float read[16];
    DequantizeRow(matrix.view(), row, read);
    for (int64_t i = 0; i < 16; ++i)
      EXPECT_NEAR(read[i], values[16 * row + i], std::fabs(read[i]) * 0x1p-21f) << row << ' ' << i;
  }
  EXPECT_EQ(sevenths, 12);
}

}  // namespace
}  // namespace tare::other_implementations_test
