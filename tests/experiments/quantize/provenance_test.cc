// SPDX-License-Identifier: Apache-2.0
// The hash is the checkpoint's, and a value that is not finite is found wherever it lies.
// In the released build alone: it quantizes whole models again and again, ten times as long under sanitizers.
#include "experiments/quantize/provenance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "experiments/quantize/quantize.h"
#include "experiments/quantize/steps/table.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/calibrated_job.h"
#include "tests/support/call.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/random_quantized.h"

namespace tare::provenance_test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const Provenance kJob{.plan = "weights=int4/channel",
                      .plan_hash = "h",
                      .method = "gptq",
                      .source = "m",
                      .source_sha256 = "s",
                      .calibration = "t"};

TEST(Provenance, StepsAreAddedFromLeftToRight) {
  Provenance p;
  AddStep(p, "hadamard", "");
  EXPECT_EQ(p.method, "hadamard");
  EXPECT_EQ(p.calibration, "");
  AddStep(p, "gptq", "text a");
  AddStep(p, "quantease", "text a");
  AddStep(p, "rtn", "text b");
  EXPECT_EQ(p.method, "hadamard+gptq+quantease+rtn");
  EXPECT_EQ(p.calibration, "text a; text b");
}

TEST(Provenance, OfAFolderAndOfAFileMadeOfOne) {
  const auto folder = GoldenFolder("llama-mha");
  const Provenance of_folder = ProvenanceOf(Checkpoint(folder), folder);
  EXPECT_EQ(of_folder.source, "llama-mha");
  EXPECT_EQ(of_folder.source_sha256, Checkpoint(folder).ContentHash());
  EXPECT_EQ(of_folder.method, "");
}

TEST(Provenance, DifferencesOfAnotherJobAreNamed) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "q.h5";
  {
    QuantizedCheckpointWriter file(path, kJob);
    file.AddFile("config.json", "{}");
    file.Commit();
  }
  const QuantizedCheckpoint file(path);
  EXPECT_NO_THROW(RequireSameJob(path, file, kJob, "{}"));
  EXPECT_THAT(Call([&] { RequireSameJob(path, file, kJob, "{ }"); }),
              ThrowsMessage<Error>(HasSubstr("MODEL's config.json has changed since; try --fresh")));
  using Part = std::string Provenance::*;
  for (const auto& [part, differs] : {std::pair<Part, std::string>{&Provenance::plan, "--plan was "},
                                      {&Provenance::method, "--method was "},
                                      {&Provenance::source, "MODEL was "},
                                      {&Provenance::source_sha256, "MODEL has changed since"},
                                      {&Provenance::calibration, "--calibrate was "}}) {
    Provenance other = kJob;
    other.*part = "other";
    const std::string values = differs.ends_with("was ") ? "'" + kJob.*part + "', is 'other'" : "";
    EXPECT_THAT(Call([&] { RequireSameJob(path, file, other, "{}"); }),
                ThrowsMessage<Error>(HasSubstr("q.h5: is of another job: " + differs + values)));
  }
}

// A file of weights under other names of its tensors is another model: neither its rotated weights nor its layers are
// taken up.
TEST(Provenance, UnderOtherTensorNamesAJobIsNotContinued) {
  const TemporaryFolder folder;
  const std::filesystem::path model = folder / "m";
  std::filesystem::copy(GoldenFolder("llama-gqa"), model);
  const auto name = [&](const std::string& gate, const std::string& up) {
    const std::string mlp = "model.layers.{}.mlp.", end = "_proj.weight";
    const nlohmann::json names{{mlp + "gate" + end, mlp + gate + end}, {mlp + "up" + end, mlp + up + end}};
    PutFile(model / "tensor-names.json", nlohmann::json{{"names", names}}.dump());
  };
  PutManyIds(folder / "ids.safetensors", 8, 50);
  for (const auto& [method, part] : {std::pair("gptq", "layer-0.h5"), {"hadamard+gptq", "prepared.h5"}}) {
    QuantizeJob job{.model = model,
                    .plan = Plan::Parse("weights=int4/group16"),
                    .out = folder / "g.h5",
                    .method = ParseMethod(method),
                    .calibration = folder / "ids.safetensors"};
    name("up", "gate");
    EXPECT_THROW(Quantize(job, StopOnce(folder / "g.h5.parts" / part)), Error);
    ASSERT_TRUE(std::filesystem::exists(folder / "g.h5.parts" / part));
    name("gate", "up");
    EXPECT_THAT(Call([&] { Quantize(job, {}); }),
                ThrowsMessage<Error>(
                    HasSubstr(std::string(part) + ": is of another job: MODEL has changed since; try --fresh")));
    name("up", "gate");
    EXPECT_NO_THROW(Quantize(job, {}));
    std::filesystem::remove(folder / "g.h5");
  }
}

const Provenance kLayerJob{
    .plan = "p", .plan_hash = "h", .method = "gptq", .source = "m", .source_sha256 = "s", .calibration = ""};

class LayerPartsTest : public testing::Test {
 protected:
  void Keep(LayerParts& parts, int layer) {
    parts.Keep(layer, kLayerJob, "{}", [&](QuantizedCheckpointWriter& part) {
      part.AddMatrix("w", matrix_.view(), {.kind = Granularity::Kind::kChannel});
    });
  }
  const TemporaryFolder folder_;
  const QuantizedMatrixBuffer matrix_ = RandomQuantized(Format::kInt8, 4, 64, 64, 1);
};

TEST_F(LayerPartsTest, AResumedJobFindsKeptParts) {
  LayerParts first(folder_ / "q.h5.parts", EarlierParts::kDeleted);
  EXPECT_FALSE(first.Has(2));
  Keep(first, 2);
  EXPECT_TRUE(first.Has(2));
  const LayerParts resumed(folder_ / "q.h5.parts", EarlierParts::kTakenUp);
  EXPECT_FALSE(resumed.Has(1));
  ASSERT_TRUE(resumed.Has(2));
  const QuantizedCheckpoint layer = resumed.Layer(2, kLayerJob, "{}");
  EXPECT_EQ(layer.matrices().at("w").out, 4);
  Provenance other = kLayerJob;
  other.method = "rtn";
  EXPECT_THAT(Call([&] { resumed.Layer(2, other, "{}"); }),
              ThrowsMessage<Error>(HasSubstr("layer-2.h5: is of another job: --method was 'gptq', is 'rtn'")));
}

TEST_F(LayerPartsTest, ANewJobDeletesEarlierPartsWithItsFirst) {
  LayerParts first(folder_ / "q.h5.parts", EarlierParts::kDeleted);
  Keep(first, 0);
  LayerParts second(folder_ / "q.h5.parts", EarlierParts::kDeleted);
  EXPECT_FALSE(second.Has(0));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "q.h5.parts" / "layer-0.h5"));
  Keep(second, 1);
  EXPECT_TRUE(second.Has(1));
  EXPECT_FALSE(second.Has(0));
}

TEST_F(LayerPartsTest, NothingStaysOfAJobThatFinishedNoLayer) {
  {
    LayerParts parts(folder_ / "q.h5.parts", EarlierParts::kDeleted);
    EXPECT_ANY_THROW(parts.Keep(0, kLayerJob, "{}", [](QuantizedCheckpointWriter&) { Fail("interrupted"); }));
  }
  EXPECT_TRUE(folder_.Names().empty());
  {
    LayerParts parts(folder_ / "q.h5.parts", EarlierParts::kDeleted);
    Keep(parts, 0);
    EXPECT_ANY_THROW(parts.Keep(1, kLayerJob, "{}", [](QuantizedCheckpointWriter&) { Fail("interrupted"); }));
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "q.h5.parts" / "layer-0.h5"));
}

TEST_F(LayerPartsTest, RemovesOnlyItsOwnFiles) {
  LayerParts parts(folder_ / "q.h5.parts", EarlierParts::kDeleted);
  Keep(parts, 0);
  PutFile(parts.Prepared(), "x");
  parts.Remove();
  EXPECT_TRUE(folder_.Names().empty());
  Keep(parts, 0);
  PutFile(folder_ / "q.h5.parts" / "mine.txt", "x");
  parts.Remove();
  EXPECT_TRUE(std::filesystem::exists(folder_ / "q.h5.parts" / "mine.txt"));
  EXPECT_FALSE(parts.Has(0));
}

// Files of other programs may have a part's name.
TEST_F(LayerPartsTest, SomebodyElsesFilesAreRefusedAndKept) {
  const std::filesystem::path parts = folder_ / "q.h5.parts";
  std::filesystem::create_directory(parts);
  for (const char* name : {"layer-0.h5", "prepared.h5"}) {
    PutFile(parts / name, "mine");
    for (const EarlierParts earlier : {EarlierParts::kDeleted, EarlierParts::kTakenUp})
      EXPECT_THAT(Call([&] { LayerParts(parts, earlier); }),
                  ThrowsMessage<Error>(HasSubstr(std::string(name) + ": got a file that is no part of a job")));
    EXPECT_EQ(GetFile(parts / name), "mine");
    std::filesystem::remove(parts / name);
  }
  for (const char* name : {"layer-notes.txt", "layer-1.h5.bak", "prepared.h5.1-0.tmp"}) PutFile(parts / name, "mine");
  LayerParts ours(parts, EarlierParts::kDeleted);
  Keep(ours, 0);
  ours.Remove();
  for (const char* name : {"layer-notes.txt", "layer-1.h5.bak", "prepared.h5.1-0.tmp"})
    EXPECT_EQ(GetFile(parts / name), "mine");
}

TEST_F(LayerPartsTest, AFolderThatCannotBeMadeIsRefused) {
  PutFile(folder_ / "file", "");
  LayerParts parts(folder_ / "file" / "q.h5.parts", EarlierParts::kDeleted);
  EXPECT_THAT(Call([&] { parts.Prepared(); }), ThrowsMessage<Error>(HasSubstr("cannot be created")));
}

}  // namespace

}  // namespace tare::provenance_test

namespace tare::written_tensor_test {
namespace {

TEST(WrittenTensor, WhatIsNotQuantizedStaysAsItIsStored) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(12, std::byte{0x40});
  WriteSafetensors(folder / "model.safetensors", {{"a", DType::kBF16, {2, 3}, bytes}});
  const Checkpoint files(folder.path());
  AlignedBuffer<char> memory;
  const TensorView tensor = WrittenTensor(files, "a", memory);
  EXPECT_EQ(tensor.dtype, DType::kBF16);
  EXPECT_EQ(tensor.bytes.data(), files.Find("a")->bytes.data());
}

TEST(WrittenTensor, WhatAnotherToolQuantizedIsWrittenInF32) {
  const Checkpoint files(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf/llama-q4_k_m.gguf");
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  const ForeignMatrix& matrix = *files.FindForeign(name);
  AlignedBuffer<char> memory;
  const TensorView tensor = WrittenTensor(files, name, memory);
  EXPECT_EQ(tensor.dtype, DType::kF32);
  EXPECT_EQ(tensor.shape, (std::vector<int64_t>{matrix.out(), matrix.in()}));
  std::vector<float> row(static_cast<size_t>(matrix.in()));
  matrix.Row(5, row.data());
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(row)),
                                 tensor.bytes.subspan(5 * row.size() * sizeof(float), row.size() * sizeof(float))));
}

}  // namespace
}  // namespace tare::written_tensor_test

namespace tare::read_whole_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(ReadWhole, ReturnsTheContentHash) {
  for (const char* golden : {"llama-gqa", "diffllama-gqa", "phi3"}) {
    const Checkpoint files(GoldenFolder(golden));
    int64_t last = 0;
    const std::string hash = ReadWhole(GoldenFolder(golden), [&](int64_t done, int64_t total, const char* unit) {
      EXPECT_LE(last, done);
      EXPECT_EQ(total, files.total_bytes());
      EXPECT_STREQ(unit, "bytes");
      last = done;
    });
    EXPECT_EQ(hash, files.ContentHash());
    EXPECT_EQ(last, files.total_bytes()) << golden;
  }
}

TEST(ReadWhole, OfAFileThatIsNoFolder) {
  const std::filesystem::path file = std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf/llama-q4_k_m.gguf";
  EXPECT_EQ(ReadWhole(file, {}), Checkpoint(file).ContentHash());
}

// Parts of files are of 8 MiB: values about their ends, the first and the last ones.
TEST(ReadWhole, FindsWhatIsNotFinite) {
  const TemporaryFolder folder;
  constexpr size_t kValues = (size_t{17} << 20) / 4;
  for (const size_t at :
       {size_t{0}, (size_t{2} << 20) - 64, (size_t{2} << 20) - 1, size_t{2} << 20, size_t{3} << 20, kValues - 1}) {
    EditedCheckpoint checkpoint(GoldenFolder("llama-gqa"));
    EditedCheckpoint::Tensor& tensor = checkpoint.tensors["added"];
    tensor.dtype = DType::kF32;
    tensor.shape = {static_cast<int64_t>(kValues)};
    tensor.bytes.assign(4 * kValues, std::byte{0});
    checkpoint.Write(folder / "m");
    EXPECT_NO_THROW(ReadWhole(folder / "m", {}));
    const float bad = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(tensor.bytes.data() + 4 * at, &bad, sizeof bad);
    const auto refused =
        AllOf(HasSubstr("/m: tensor 'added', index " + std::to_string(at) + ":"), HasSubstr("NaN or infinity"));
    checkpoint.Write(folder / "m");
    EXPECT_THAT([&] { ReadWhole(folder / "m", {}); }, ThrowsMessage<Error>(refused));
  }
}

// A value that lies across two parts.
TEST(ReadWhole, FindsWhatPartsShare) {
  const TemporaryFolder folder;
  EditedCheckpoint checkpoint(GoldenFolder("llama-gqa"));
  EditedCheckpoint::Tensor& tensor = checkpoint.tensors["added"];
  tensor.shape = {int64_t{3} << 20};
  tensor.bytes.assign(size_t{12} << 20, std::byte{0});
  checkpoint.WriteMisaligned(folder / "m");
  const Safetensors file(folder / "m" / "model.safetensors");
  const auto begin = static_cast<size_t>(file.Find("added")->bytes.data() - file.file().bytes().data());
  ASSERT_NE(begin % 4, 0u);
  tensor.SetBits(((size_t{8} << 20) - begin) / 4, 0x7fc00000);
  checkpoint.WriteMisaligned(folder / "m");
  EXPECT_THAT([&] { ReadWhole(folder / "m", {}); }, ThrowsMessage<Error>(HasSubstr("NaN or infinity")));
}

}  // namespace
}  // namespace tare::read_whole_test
