// SPDX-License-Identifier: Apache-2.0
// Written data come back in the mapped file; what does not fit together, or is damaged, is refused by name.
#include "quant/file/quantized_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "quant/algorithms/round_to_nearest.h"
#include "quant/base/float16.h"
#include "quant/base/message.h"
#include "quant/format/hadamard.h"
#include "quant/format/pack.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"
#include "tests/support/ranged_integers.h"

namespace tare::quantized_checkpoint_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Provenance kProvenance{"weights=int4/group32", "0123456789abcdef", "rtn", "m", std::string(64, 'a'), ""};
constexpr const char* kName = "model.layers.0.mlp.up_proj.weight";

void Write(const std::filesystem::path& path, const QuantizedMatrix& matrix) {
  QuantizedCheckpointWriter file(path, kProvenance);
  file.AddFile("config.json", "{}");
  const std::vector<std::byte> half(6, std::byte{0x3f}), whole(8, std::byte{1});
  file.AddTensor({"model.norm.weight", DType::kBF16, {3}, half});
  file.AddTensor({"lm_head.weight", DType::kF32, {1, 2}, whole});
  file.AddMatrix(kName, matrix, *ParseGranularity("group32"));
  file.Commit();
}

TEST(QuantizedCheckpoint, RoundTrips) {
  const TemporaryFolder folder;
  for (const Format format : {Format::kInt8, Format::kInt6, Format::kInt4}) {
    const QuantizedMatrixBuffer matrix = RandomQuantized(format, 5, 96, 32, 1);
    Write(folder / "q.h5", matrix.view());
    const QuantizedCheckpoint file(folder / "q.h5");
    EXPECT_EQ(file.provenance().plan, kProvenance.plan);
    EXPECT_EQ(file.provenance().source_sha256, kProvenance.source_sha256);
    EXPECT_EQ(file.File("config.json"), "{}");
    EXPECT_EQ(file.File("tokenizer.model"), std::nullopt);
    const TensorView& norm = file.tensors().at("model.norm.weight");
    EXPECT_EQ(norm.dtype, DType::kBF16);
    EXPECT_EQ(norm.shape, std::vector<int64_t>{3});
    EXPECT_EQ(norm.bytes[5], std::byte{0x3f});
    EXPECT_EQ(file.tensors().at("lm_head.weight").dtype, DType::kF32);
    const QuantizedMatrix& m = file.matrices().at(kName);
    ASSERT_EQ(m.RowBytes(), matrix.view().RowBytes());
    EXPECT_EQ(std::memcmp(m.codes, matrix.view().codes, matrix.code_bytes()), 0);
    EXPECT_EQ(std::memcmp(m.scales, matrix.view().scales, 4 * matrix.scale_count()), 0);
    EXPECT_NO_THROW(file.Verify());
  }
}

TEST(QuantizedCheckpoint, LowRankBranchesComeBack) {
  const TemporaryFolder folder;
  QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt4, 5, 96, 32, 1);
  std::vector<uint16_t> up(5 * 3), down(3 * 96);
  for (size_t i = 0; i < up.size(); ++i) up[i] = static_cast<uint16_t>(0x3f80 + i);  // 1 to 1.1
  for (size_t i = 0; i < down.size(); ++i) down[i] = static_cast<uint16_t>(0xbf00 + i % 128);
  std::vector<float> codes(96), values(96);
  DequantizeRow(matrix.view(), 4, codes.data());
  matrix.SetBranch(up, down);
  Write(folder / "q.h5", matrix.view());
  const QuantizedCheckpoint file(folder / "q.h5");
  const QuantizedMatrix& m = file.matrices().at(kName);
  ASSERT_EQ(m.branch.rank, 3);
  EXPECT_EQ(std::memcmp(m.branch.up, up.data(), 2 * up.size()), 0);
  EXPECT_EQ(std::memcmp(m.branch.down, down.data(), 2 * down.size()), 0);
  EXPECT_EQ(m.Bytes(), RandomQuantized(Format::kInt4, 5, 96, 32, 1).view().Bytes() + 2 * 3 * (5 + 96));
  EXPECT_NO_THROW(file.Verify());
  DequantizeRow(m, 4, values.data());
  for (size_t i = 0; i < 96; ++i) {
    double sum = codes[i], size = std::abs(codes[i]);
    for (size_t k = 0; k < 3; ++k) {
      const double term = double{FloatFromBf16(up[4 * 3 + k])} * double{FloatFromBf16(down[k * 96 + i])};
      sum += term, size += std::abs(term);
    }
    EXPECT_NEAR(values[i], sum, 0x1p-22 * size);  // three sums and products in f32
  }
}

TEST(QuantizedCheckpoint, HalfALowRankBranchIsRefused) {
  const TemporaryFolder folder;
  const auto written = [&](const char* path, std::vector<int64_t> shape) {
    Hdf5Writer other(folder / "f.h5");
    for (const char* key : {"plan", "plan_hash", "method", "source", "source_sha256", "calibration"})
      other.SetAttribute("", key, "x");
    other.SetAttribute("", "schema", "tare.quantized/6");
    const QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt8, 2, 8, 4, 1);
    other.WriteDataset("codes/w", DType::kU8, {2, 8}, matrix.view().codes);
    other.WriteDataset("scales/w", DType::kF32, {2, 2}, matrix.view().scales);
    other.SetAttribute("codes/w", "format", "int8");
    other.SetAttribute("codes/w", "group", int64_t{4});
    other.SetAttribute("codes/w", "in", int64_t{8});
    const std::vector<uint16_t> values(64);
    other.WriteDataset(path, DType::kU16, shape, values.data());
    if (shape == std::vector<int64_t>{2, 3}) other.WriteDataset("low_rank_down/w", DType::kU16, {5, 8}, values.data());
    other.Commit();
    return Call([&] { QuantizedCheckpoint(folder / "f.h5"); });
  };
  EXPECT_THAT(written("low_rank_up/w", {3, 3}), ThrowsMessage<Error>(HasSubstr("another shape or type")));
  EXPECT_THAT(written("low_rank_up/w", {6}), ThrowsMessage<Error>(HasSubstr("another shape or type")));
  EXPECT_THAT(written("low_rank_up/w", {2, 3}), ThrowsMessage<Error>(HasSubstr("low-rank factor of another shape")));
  EXPECT_THAT(written("low_rank_up/w", {2, 4}), ThrowsMessage<Error>(HasSubstr("low_rank_down/w")));
}

// Scales of each type; 40 values are a short last block, and the f32 per tensor goes with them.
TEST(QuantizedCheckpoint, FormatsThatAreNotIntegersComeBack) {
  const TemporaryFolder folder;
  for (const auto& [name, group] : {std::pair{"mxfp6e3m2", 32},
                                    {"nvfp4", 16},
                                    {"nvfp4:4over6", 16},
                                    {"nvfp4:t1", 16},
                                    {"nvint4", 16},
                                    {"if4", 16},
                                    {"nf4", 20},
                                    {"ternary", 40},
                                    {"e8p", 8},
                                    {"normal4", 20},
                                    {"normal3", 40},
                                    {"normal2", 10},
                                    {"grid(-1 0.5 1)", 20},  // without 0, which fills up a row
                                    {"grid(-9 -5 -3 -2 -1 0 1 2 3 4 5 6 7 8 9 10 11 12)", 40}}) {
    const Format format = *ParseFormat(name);
    QuantizedMatrixBuffer matrix(format, 3, 40, group, 5.0f);
    for (int64_t row = 0; row < 3; ++row)
      RoundRowToNearest(RandomNormal(40, static_cast<unsigned>(row)).data(), ClipChoice::kAbsmax, matrix, row);
    Write(folder / "q.h5", matrix.view());
    const QuantizedCheckpoint file(folder / "q.h5");
    EXPECT_NO_THROW(file.Verify());
    for (int64_t row = 0; row < 3; ++row) {
      std::vector<float> written(40), read(40);
      DequantizeRow(matrix.view(), row, written.data());
      DequantizeRow(file.matrices().at(kName), row, read.data());
      EXPECT_EQ(read, written) << Name(format);
    }
  }
}

// Zero points and minima come back bit for bit, and the last group of every row with them.
TEST(QuantizedCheckpoint, OtherRangesOfCodesComeBack) {
  const TemporaryFolder folder;
  for (const Format& format : RangedIntegers()) {
    const QuantizedMatrixBuffer matrix = RandomQuantized(format, 5, 96, 32, 1);
    Write(folder / "q.h5", matrix.view());
    const QuantizedCheckpoint file(folder / "q.h5");
    EXPECT_NO_THROW(file.Verify());
    const QuantizedMatrix& m = file.matrices().at(kName);
    EXPECT_EQ(m.format, format);
    EXPECT_EQ(m.Bytes(), matrix.view().Bytes()) << Name(format);
    for (int64_t row = 0; row < 5; ++row) {
      std::vector<float> written(96), read(96);
      DequantizeRow(matrix.view(), row, written.data());
      DequantizeRow(m, row, read.data());
      EXPECT_EQ(read, written) << Name(format);
    }
    file.Release(kName);
  }
}

// The run's length beside the codes, and what makes the matrix for other programs.
TEST(QuantizedCheckpoint, RotationsComeBack) {
  const TemporaryFolder folder;
  for (const int run : {96, 16, 12}) {
    const Hadamard& rotation = PlanRotation(96, {run});
    QuantizedMatrixBuffer matrix(Format::kInt4, 3, 96, 32, 0, &rotation);
    for (int64_t row = 0; row < 3; ++row)
      RoundRowToNearest(RandomNormal(96, static_cast<unsigned>(row)).data(), ClipChoice::kAbsmax, matrix, row);
    Write(folder / "q.h5", matrix.view());
    const QuantizedCheckpoint file(folder / "q.h5");
    EXPECT_NO_THROW(file.Verify());
    EXPECT_EQ(file.matrices().at(kName).rotation, &rotation);
    std::vector<float> written(96), read(96);
    DequantizeRow(matrix.view(), 2, written.data());
    DequantizeRow(file.matrices().at(kName), 2, read.data());
    EXPECT_EQ(read, written) << run;
    const Hdf5Reader parts(folder / "q.h5");
    EXPECT_EQ(parts.Shape("hadamard/signs.96"), std::vector<int64_t>{96});
    const int64_t base = run == 16 ? 1 : 12;
    EXPECT_EQ(parts.Shape(Formatted("hadamard/matrix.{}", base)), (std::vector<int64_t>{base, base}));
  }
}

TEST(QuantizedCheckpoint, RotationsThatAreNoneAreRefused) {
  const TemporaryFolder folder;
  int8_t matrix = 1;
  const auto refused = [&](int64_t run, std::vector<int8_t> signs, const std::string& part) {
    Hdf5Writer file(folder / "f.h5");
    file.SetAttribute("", "schema", "tare.quantized/6");
    for (const char* key : {"plan", "plan_hash", "method", "source", "source_sha256", "calibration"})
      file.SetAttribute("", key, "x");
    file.WriteDataset<uint8_t>("codes/w", {1, 8}, std::vector<uint8_t>(8));
    file.SetAttribute("codes/w", "format", "int8");
    file.SetAttribute("codes/w", "group", int64_t{8});
    file.SetAttribute("codes/w", "in", int64_t{8});
    file.SetAttribute("codes/w", "hadamard", run);
    file.WriteDataset<float>("scales/w", {1, 1}, std::vector<float>(1));
    if (!signs.empty()) {
      file.WriteDataset("hadamard/signs.8", DType::kI8, {std::ssize(signs)}, signs.data());
      file.WriteDataset("hadamard/matrix.1", DType::kI8, {1, 1}, &matrix);
    }
    file.Commit();
    EXPECT_THAT(Call([&] { QuantizedCheckpoint(folder / "f.h5").Verify(); }),
                ThrowsMessage<Error>(AllOf(HasSubstr("f.h5: dataset 'codes/w'"), HasSubstr(part))))
        << part;
  };
  const std::span<const float> known = PlanRotation(8).signs();
  std::vector<int8_t> signs(known.begin(), known.end());
  for (const int64_t run : {int64_t{0}, int64_t{-4}, int64_t{3}, int64_t{1}, int64_t{1} << 40})
    refused(run, signs, Formatted("got runs of {} rotated channels in rows of 8", run));
  refused(4, {}, "got no 'hadamard/signs.8'");
  refused(4, {1, 1, 1}, "got no 'hadamard/signs.8' of i8 [8]");
  matrix = -1;
  refused(4, signs, "got another 'hadamard/matrix.1' than");
  signs[5] = static_cast<int8_t>(-signs[5]);
  refused(4, signs, "got another 'hadamard/signs.8' than that of 8 channels");
}

TEST(QuantizedCheckpoint, ZeroPointsAndMinimaThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* format, const auto& add, const std::string& part) {
    Hdf5Writer file(folder / "f.h5");
    file.SetAttribute("", "schema", "tare.quantized/3");
    for (const char* key : {"plan", "plan_hash", "method", "source", "source_sha256", "calibration"})
      file.SetAttribute("", key, "x");
    const std::vector<uint8_t> codes(2 * 32, uint8_t{0});
    const std::vector<float> scales(4, 1.0f);
    file.WriteDataset<uint8_t>("codes/w", {2, 32}, codes);
    file.SetAttribute("codes/w", "format", format);
    file.SetAttribute("codes/w", "group", int64_t{32});
    file.SetAttribute("codes/w", "in", int64_t{64});
    file.WriteDataset<float>("scales/w", {2, 2}, scales);
    add(file);
    file.Commit();
    EXPECT_THAT(Call([&] { QuantizedCheckpoint(folder / "f.h5").Verify(); }),
                ThrowsMessage<Error>(AllOf(HasSubstr("f.h5"), HasSubstr(part))))
        << part;
  };
  const auto none = [](Hdf5Writer&) {};
  refused("int4+zero", none, "dataset 'codes/w': got no zero points, expected 'zeros/w'");
  refused("int4+min", none, "got no minima, expected 'minima/w'");
  refused("int4+zero+min", none, "got format int4+zero+min");
  refused("mxfp4+zero", none, "got format mxfp4+zero");
  const std::vector<uint8_t> zeros = {0, 15, 7, 16};
  const std::vector<float> minima = {0, -1, std::numeric_limits<float>::infinity(), 2};
  refused(
      "int4+zero", [&](Hdf5Writer& f) { f.WriteDataset<uint8_t>("zeros/w", {2, 2}, zeros); },
      "'w': row 1, group 1: got zero point 16");
  refused(
      "int4+zero", [&](Hdf5Writer& f) { f.WriteDataset<uint8_t>("zeros/w", {4, 1}, zeros); },
      "got zero points of another shape or type, expected u8 [2, 2]");
  refused(
      "int4+zero", [&](Hdf5Writer& f) { f.WriteDataset<float>("zeros/w", {2, 2}, minima); },
      "got zero points of another shape or type, expected u8 [2, 2]");
  refused(
      "int4+min", [&](Hdf5Writer& f) { f.WriteDataset<float>("minima/w", {2, 2}, minima); },
      "'w': row 1, group 0: got minimum inf");
  refused(
      "int4+min", [&](Hdf5Writer& f) { f.WriteDataset<uint8_t>("minima/w", {2, 2}, zeros); },
      "got minima of another shape or type, expected f32 [2, 2]");
}

// Without hashes, as another program would save it.
TEST(QuantizedCheckpoint, GridsAndScalesOfSomethingElseAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const auto& edit, const std::string& part) {
    std::vector<float> grid(StoredValues(Format::kNvFp4).begin(), StoredValues(Format::kNvFp4).begin() + 16);
    std::vector<float> scale_grid(ScaleValues(ScaleType::kTwoLevel).begin(), ScaleValues(ScaleType::kTwoLevel).end());
    std::vector<float> of_tensor = {0.5f};
    edit(grid, scale_grid, of_tensor);
    Hdf5Writer file(folder / "f.h5");
    file.SetAttribute("", "schema", "tare.quantized/3");
    for (const char* key : {"plan", "plan_hash", "method", "source", "source_sha256", "calibration"})
      file.SetAttribute("", key, "x");
    const std::vector<uint8_t> codes(32), scales(1, uint8_t{0x38});
    file.WriteDataset<uint8_t>("codes/w", {1, 32}, codes);
    file.SetAttribute("codes/w", "format", "nvfp4");
    file.SetAttribute("codes/w", "group", int64_t{16});
    file.SetAttribute("codes/w", "in", int64_t{16});
    file.WriteDataset<uint8_t>("scales/w", {1, 1}, scales);
    file.WriteDataset<float>("tensor_scales/w", {std::ssize(of_tensor)}, of_tensor);
    file.WriteDataset<float>("grids/nvfp4", {std::ssize(grid)}, grid);
    file.WriteDataset<float>("grids/scale.e4m3", {std::ssize(scale_grid)}, scale_grid);
    file.Commit();
    if (part.empty()) {
      EXPECT_NO_THROW(QuantizedCheckpoint(folder / "f.h5").Verify());
    } else {
      EXPECT_THAT(Call([&] { QuantizedCheckpoint(folder / "f.h5"); }), ThrowsMessage<Error>(HasSubstr(part)));
    }
  };
  using Floats = std::vector<float>;
  refused([](Floats&, Floats&, Floats&) {}, "");
  refused([](Floats& grid, Floats&, Floats&) { grid[3] = 1.25f; }, "got a grid in 'grids/nvfp4'");
  refused([](Floats& grid, Floats&, Floats&) { grid.pop_back(); }, "got a grid in 'grids/nvfp4'");
  refused([](Floats&, Floats& scales, Floats&) { scales[1] = 1.0f; }, "got a grid in 'grids/scale.e4m3'");
  refused([](Floats&, Floats&, Floats& t) { t[0] = -1.0f; }, "f32 per tensor");
  refused([](Floats&, Floats&, Floats& t) { t[0] = std::numeric_limits<float>::infinity(); }, "f32 per tensor");
  refused([](Floats&, Floats&, Floats& t) { t.push_back(1.0f); }, "f32 per tensor");
}

TEST(QuantizedCheckpoint, EqualContentIsEqualBytes) {
  const TemporaryFolder folder;
  const QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt6, 5, 96, 32, 1);
  Write(folder / "a.h5", matrix.view());
  Write(folder / "b.h5", matrix.view());
  EXPECT_EQ(GetFile(folder / "a.h5"), GetFile(folder / "b.h5"));
}

// Every 37th byte turned over: opening refuses, as every command does with it, and nothing crashes.
TEST(QuantizedCheckpoint, DamageIsSeen) {
  const TemporaryFolder folder;
  const QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt4, 9, 96, 32, 1);
  Write(folder / "q.h5", matrix.view());
  const std::string whole = GetFile(folder / "q.h5");
  const size_t codes = whole.find(std::string(reinterpret_cast<const char*>(matrix.view().codes), 64));
  ASSERT_NE(codes, whole.npos);
  for (size_t at = codes; at < codes + matrix.code_bytes(); at += 37) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    PutFile(folder / "d.h5", damaged);
    EXPECT_THROW(QuantizedCheckpoint(folder / "d.h5"), Error) << at;
  }
  for (const size_t size : {size_t{0}, size_t{100}, whole.size() / 2, whole.size() - 1}) {
    PutFile(folder / "d.h5", whole.substr(0, size));
    EXPECT_THROW(QuantizedCheckpoint(folder / "d.h5"), Error) << size;
  }
}

TEST(QuantizedCheckpoint, ScalesThatNoQuantizerWritesAreSeenByVerify) {
  const TemporaryFolder folder;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt8, 5, 96, 32, 1);
    matrix.Scales(2)[1] = bad;
    Write(folder / "q.h5", matrix.view());
    EXPECT_THAT(Call([&] { QuantizedCheckpoint(folder / "q.h5").Verify(); }),
                ThrowsMessage<Error>(AllOf(HasSubstr(kName), HasSubstr("row 2, group 1: got scale"))));
  }
}

// A file made by other means, with one fault at a time.
struct Foreign {
  std::string schema = "tare.quantized/6", format = "int8";
  int64_t in = 8, group = 4, row_bytes = 8, groups = 2;
  void Write(const std::filesystem::path& path) const {
    Hdf5Writer file(path);
    file.SetAttribute("", "schema", schema);
    for (const char* key : {"plan", "plan_hash", "method", "source", "source_sha256", "calibration"})
      file.SetAttribute("", key, "x");
    const std::vector<uint8_t> codes(static_cast<size_t>(2 * row_bytes));
    const std::vector<float> scales(static_cast<size_t>(2 * groups));
    file.WriteDataset<uint8_t>("codes/w", {2, row_bytes}, codes);
    file.WriteDataset<float>("scales/w", {2, groups}, scales);
    file.SetAttribute("codes/w", "format", format);
    file.SetAttribute("codes/w", "group", group);
    file.SetAttribute("codes/w", "in", in);
    file.Commit();
  }
};

TEST(QuantizedCheckpoint, InconsistentPartsAreRefused) {
  const TemporaryFolder folder;
  const auto refused = [&](const Foreign& foreign, const std::string& part) {
    foreign.Write(folder / "f.h5");
    EXPECT_THAT(Call([&] { QuantizedCheckpoint file(folder / "f.h5"); }), ThrowsMessage<Error>(HasSubstr(part)));
  };
  Foreign{}.Write(folder / "f.h5");
  EXPECT_NO_THROW(QuantizedCheckpoint(folder / "f.h5"));
  for (const char* older :
       {"tare.quantized/1", "tare.quantized/2", "tare.quantized/3", "tare.quantized/4", "tare.quantized/5"}) {
    Foreign{.schema = older}.Write(folder / "f.h5");
    EXPECT_NO_THROW(QuantizedCheckpoint(folder / "f.h5"));
  }
  refused({.schema = "tare.quantized/7"}, "schema tare.quantized/7");
  refused({.schema = "tare.stats/1"}, "schema tare.stats/1");
  refused({.format = "int5"}, "int5");
  refused({.format = "u8"}, "u8");
  refused({.format = "mxint8"}, "groups of 4, expected 32");
  refused({.format = "fp8e4m3"}, "grids/fp8e4m3");
  refused({.format = "fp8e4m3:"}, "fp8e4m3:");
  refused({.in = 9}, "groups of 4");
  refused({.in = 16}, "rows of 8 bytes");
  refused({.in = -8}, "-8");
  refused({.in = std::numeric_limits<int64_t>::max()}, "no more than fit");
  refused({.group = 0}, "groups of 0");
  refused({.groups = 3}, "[2, 2]");
}

}  // namespace
}  // namespace tare::quantized_checkpoint_test
