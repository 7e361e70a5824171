// SPDX-License-Identifier: Apache-2.0
// Integer codes of every golden checkpoint of another tool are its values, value for value.
#include "quant/interchange/folders/grouped_matrix.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "quant/format/pack.h"
#include "tests/support/foreign_folder.h"

namespace tare::grouped_integers_test {
namespace {

// The form of each matrix, "int4+full/32"; "" where there is none. Where there is one, its rows are the matrix's.
std::map<std::string, std::string> FormsIn(const std::filesystem::path& path) {
  const Checkpoint checkpoint(path);
  std::map<std::string, std::string> forms;
  for (const std::string& name : checkpoint.names()) {
    const ForeignMatrix* matrix = checkpoint.FindForeign(name);
    if (matrix == nullptr) continue;
    const std::optional<IntegerForm> form = matrix->integers();
    forms[name] = form ? Name(form->format) + "/" + std::to_string(form->group) : "";
    if (!form) continue;
    const QuantizedMatrixBuffer integers = IntegersOf(*matrix);
    const std::span<const int32_t> order = matrix->order();
    std::vector<float> row(static_cast<size_t>(matrix->in())), expected(row), values(row);
    for (int64_t r = 0; r < matrix->out(); ++r) {
      DequantizeRow(integers.view(), r, row.data());
      matrix->Row(r, values.data());
      for (size_t c = 0; c < row.size(); ++c) expected[c] = values[order.empty() ? c : static_cast<size_t>(order[c])];
      EXPECT_EQ(row, expected) << name << " row " << r;  // 0 and -0 are equal
    }
  }
  return forms;
}

std::string FormsOf(const std::string& folder) {
  const std::map<std::string, std::string> forms = FormsIn(ForeignFolder(folder));
  std::set<std::string> all;
  for (const auto& [name, form] : forms) all.insert(form);
  std::string text;
  for (const std::string& form : all) text += (text.empty() ? "" : " ") + (form.empty() ? "none" : form);
  return text;
}

TEST(GroupedIntegers, AreTheValuesOfEveryGoldenCheckpoint) {
  const std::map<std::string, std::string> expected{
      {"llama-gptq", "int4+zero/32"},  // columns are ordered by g_idx
      {"llama-gptq-named-wrong", "int4+full/32"},
      {"llama-awq", "int4+zero/32"},
      {"llama-auto-round", "int4+full/32"},
      {"llama-compressed-int4", "int4+zero/32"},
      {"llama-compressed-w8a8", "int8+full/64 int8+full/96"},  // channels
      {"llama-compressed-fp8", "none"},
      {"llama-compressed-nvfp4", "int6/16"},
      {"llama-mlx", "int4+min/32"},
      {"llama-nf4", "none"},
      {"gptq", "int2+zero/32 int3+zero/16 int4+zero/32 int8+zero/64"},
      {"gptq-v2", "int2+zero/32 int3+zero/16 int4+zero/32 int8+zero/64"},
      {"awq", "int4+zero/32"},
      {"auto-round", "int2+zero/32 int3+zero/32 int4+zero/32 int8+zero/64"},
      {"auto-round-gptq", "int2+full/32 int3+full/32 int4+full/32 int8+full/64"},
      {"auto-round-awq", "int4+full/32"},
      {"mlx", "int2+min/32 int3+min/32 int4+min/32 int6+min/32 int6+min/64 int8+min/64"},
      {"compressed-packed-0.12",
       "int3+zero/16 int4+full/32 int4+zero/16 int6+full/16 int6+zero/16 int8+full/64 int8+zero/16 int8+zero/64"},
      {"compressed-packed-0.18",
       "int3+zero/16 int4+full/32 int4+zero/16 int6+full/16 int6+zero/16 int8+full/64 int8+zero/16 int8+zero/64"},
      {"compressed-bytes", "none int6/16 int6/32 int8+full/64 int8+zero/64"}};
  for (const auto& [folder, forms] : expected) EXPECT_EQ(FormsOf(folder), forms) << folder;
}

class Parts {
 public:
  // [2, 32] of 4 bits in groups of 16, scales 0.5 and -2, 1 and 3.
  Parts() {
    SetScales({0.5f, -2.0f, 1.0f, 3.0f});
    scales_ = {"s", DType::kF32, {2, 2}, scale_bytes_};
    for (size_t i = 0; i < codes_.size(); ++i) codes_[i] = static_cast<std::byte>(i * 37 % 256);
    parts.out = 2, parts.in = 32, parts.groups = 2, parts.columns = 16;
    parts.codes = {.words = codes_.data(), .bits = 4, .word_bytes = 1, .stream_step = 16};
    parts.values = IntegerValues(8);
    parts.scales = {.tensor = &scales_, .row_step = 2, .group_step = 1};
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void SetScales(std::array<float, 4> scales) { std::memcpy(scale_bytes_.data(), scales.data(), 16); }
  void SetZeros(std::array<uint8_t, 4> zeros) {
    for (size_t i = 0; i < zeros.size(); ++i) zeros_[i] = static_cast<std::byte>(zeros[i]);
    parts.zeros = PackedCodes{.words = zeros_.data(), .bits = 8, .word_bytes = 1, .stream_step = 2};
    parts.zero_values = IntegerValues(8);
  }
  std::optional<IntegerForm> Form() const {
    const std::optional<GroupedIntegers> integers = IntegersIn(parts);
    return integers ? std::optional(integers->form) : std::nullopt;
  }

  GroupedParts parts;

 private:
  std::array<std::byte, 32> codes_{};
  std::array<std::byte, 16> scale_bytes_{};
  std::array<std::byte, 4> zeros_{};
  TensorView scales_;
};

IntegerForm FormNamed(const char* format, int64_t group) { return {*ParseMatrixFormat(format), group}; }

TEST(GroupedIntegers, OneZeroPointIsSymmetricAndOthersAreACodeEach) {
  Parts p;
  EXPECT_EQ(p.Form(), FormNamed("int4+full", 16));
  p.SetZeros({8, 8, 8, 8});
  EXPECT_EQ(p.Form(), FormNamed("int4+full", 16));
  p.SetZeros({7, 7, 7, 7});  // codes -7 to 8
  EXPECT_EQ(p.Form(), FormNamed("int6", 16));
  p.SetZeros({0, 15, 8, 8});
  EXPECT_EQ(p.Form(), FormNamed("int4+zero", 16));
  p.SetZeros({0, 16, 8, 8});
  EXPECT_EQ(p.Form(), FormNamed("int6+zero", 16));
}

TEST(GroupedIntegers, ScalesAreHalvedWhereNoBitIsLost) {
  Parts p;
  p.parts.values = StoredValues(Format::kMxFp4);
  EXPECT_EQ(p.Form(), FormNamed("int6", 16));
  EXPECT_EQ(IntegersIn(p.parts)->codes[15], -12.0f);
  p.SetScales({1, 1, 1, 3 * 0x1p-148f});
  EXPECT_EQ(p.Form(), FormNamed("int6", 16));
  p.SetScales({1, 1, 1, 3 * 0x1p-149f});  // f32's last bit
  EXPECT_EQ(p.Form(), std::nullopt);
}

TEST(GroupedIntegers, GroupsMustBeOfTheSameNumber) {
  Parts p;
  p.parts.group_of.assign(32, 0);
  std::fill(p.parts.group_of.begin() + 16, p.parts.group_of.end(), 1);
  EXPECT_EQ(p.Form(), FormNamed("int4+full", 16));
  EXPECT_TRUE(IntegersIn(p.parts)->order.empty());
  std::swap(p.parts.group_of[0], p.parts.group_of[31]);
  EXPECT_EQ(p.Form(), FormNamed("int4+full", 16));
  std::vector<int32_t> order(32);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 1, order.begin() + 16);  // 1 to 15, then 31
  order[15] = 31, order[16] = 0;
  for (int32_t i = 17; i < 32; ++i) order[static_cast<size_t>(i)] = i - 1;
  EXPECT_EQ(IntegersIn(p.parts)->order, order);
  p.parts.group_of[1] = 1;
  EXPECT_EQ(p.Form(), std::nullopt);
  p.parts.group_of.clear();
  p.parts.columns = 24;  // the last group is short
  EXPECT_EQ(p.Form(), std::nullopt);
  p.parts.columns = 128, p.parts.groups = 1;
  EXPECT_EQ(p.Form(), FormNamed("int4+full", 32));
}

TEST(GroupedIntegers, FloatsAndWideCodesHaveNone) {
  Parts p;
  p.parts.values[3] = 0.25f;
  EXPECT_EQ(p.Form(), std::nullopt);
  p.parts.values = IntegerValues(8);
  p.parts.values[3] = 200.0f;
  EXPECT_EQ(p.Form(), std::nullopt);
}

// Kernels decode rows of codes whose bytes lie one after the other in whole groups of 16, and no others.
TEST(GroupedMatrix, RowsOfNibbles) {
  const CheckpointFiles files(ForeignFolder("compressed-bytes"));
  const ModuleTensors tensors(files, "folder");
  const auto in_nibbles = [&](auto change) {
    Parts p;
    p.SetZeros({0, 15, 8, 8});
    change(p);
    ForeignModel model;
    AddMatrix(p.parts, tensors, model);
    const ForeignMatrix& matrix = *model.matrices.at(p.parts.name);
    const std::optional<NibbleRow> row = matrix.Nibbles(1);
    if (!row) return false;
    std::vector<float> expected(static_cast<size_t>(matrix.in())), values(expected);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto code = (std::to_integer<size_t>(row->codes[i / 2]) >> (i % 2 * 4)) & 15;
      const size_t g = i / static_cast<size_t>(row->columns);
      values[i] = (row->values[code] - row->zeros[g]) * row->scales[g];
    }
    matrix.Row(1, expected.data());
    EXPECT_EQ(values, expected);
    return true;
  };
  EXPECT_TRUE(in_nibbles([](Parts&) {}));
  EXPECT_TRUE(in_nibbles([](Parts& p) { p.parts.values = StoredValues(Format::kMxFp4); }));
  EXPECT_TRUE(in_nibbles([](Parts& p) { p.parts.columns = 4096, p.parts.groups = 1; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.columns = 8, p.parts.groups = 4; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.in = 24; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.values[3] = std::numeric_limits<float>::quiet_NaN(); }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.SetScales({1, 1, 1, 1e38f}); }));  // a value beyond float32
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.group_of.assign(32, 0); }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.added = p.parts.scales; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.codes.bits = 2; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.codes.per_word = 2; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.codes.code_add = 1; }));
  EXPECT_FALSE(in_nibbles([](Parts& p) { p.parts.codes.along_rows = false; }));
}

}  // namespace
}  // namespace tare::grouped_integers_test
