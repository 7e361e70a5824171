// SPDX-License-Identifier: Apache-2.0
// tare judge on llama.cpp's own numbers (tests/data/predictions), and on made files of thirty windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <sstream>

#include <zip.h>

#include <nlohmann/json.hpp>

#include "quant/file/hdf5.h"
#include "tests/support/call_tare.h"
#include "tests/support/golden.h"
#include "tests/support/judged.h"

namespace tare::judge_test {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

const std::filesystem::path kGolden = TARE_SOURCE_DIR "/tests/data/predictions";

std::string Npy(const std::string& type, const std::string& shape, std::span<const std::byte> values) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\1\0\x76\0", 10) + header + "\n" +
         std::string(reinterpret_cast<const char*>(values.data()), values.size());
}

// A text of `windows` windows of 6 tokens with a vocabulary of 11.
struct Logits {
  int64_t windows = 30;
  std::vector<float> values = std::vector<float>(static_cast<size_t>(windows) * 66);
  std::vector<int32_t> ids = std::vector<int32_t>(static_cast<size_t>(windows) * 6);

  // From a seed, and then moved by noise of another.
  explicit Logits(float noise, unsigned seed) {
    std::mt19937 text(1), moved(seed);
    const auto uniform = [](std::mt19937& random) { return static_cast<float>(random() % 2001) / 1000 - 1; };
    for (int32_t& id : ids) id = static_cast<int32_t>(text() % 11);
    for (float& x : values) x = 3 * uniform(text) + noise * uniform(moved);
  }
  // In one of the forms that programs write, by the file's ending.
  void PutAs(const std::filesystem::path& path) const {
    if (path.extension() == ".npy") return PutFile(path, Npy("<f4", "(30, 6, 11)", std::as_bytes(std::span(values))));
    if (path.extension() == ".npz") return PutZip(path);
    Hdf5Writer file(path);
    file.WriteDataset("logits", DType::kF32, {180, 11}, values.data());
    file.WriteDataset("input_ids", DType::kI32, {180}, ids.data());
    file.Commit();
  }
  std::span<const float> Values() const { return std::span(values).first(static_cast<size_t>(windows) * 66); }
  void PutZip(const std::filesystem::path& path) const {
    zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    const std::string logits = Npy("<f4", "(" + std::to_string(windows) + ", 6, 11)", std::as_bytes(Values())),
                      tokens = Npy("<i4", "(" + std::to_string(windows) + ", 6)", std::as_bytes(std::span(ids)));
    for (const auto& [name, npy] : {std::pair{"logits.npy", &logits}, {"input_ids.npy", &tokens}})
      zip_file_add(archive, name, zip_source_buffer(archive, npy->data(), npy->size(), 0), 0);
    zip_close(archive);
  }
  void Put(const std::filesystem::path& path) const {
    WriteSafetensors(path, {{"logits", DType::kF32, {windows, 6, 11}, std::as_bytes(std::span(values))},
                            {"input_ids", DType::kI32, {windows, 6}, std::as_bytes(std::span(ids))}});
  }
};

double LogP(const Logits& of, size_t row, size_t token) {
  double sum = 0;
  for (size_t i = 0; i < 11; ++i) sum += std::exp(double{of.values[11 * row + i]});
  return of.values[11 * row + token] - std::log(sum);
}

class JudgeTest : public testing::Test {
 protected:
  JudgeTest() {
    Logits(0, 1).Put(r_);
    Logits(0.2f, 2).Put(a_);
    Logits(0.8f, 3).Put(b_);
  }
  std::string Refused(const std::string& other) { return CallTare({"judge", r_, other}).err; }

  TemporaryFolder folder_;
  const std::string r_ = folder_ / "R.safetensors", a_ = folder_ / "A.safetensors", b_ = folder_ / "B.safetensors";
};

// To the 1e-6 to which the golden values agree with llama.cpp's own.
TEST_F(JudgeTest, DivergesAsLlamaPerplexitySays) {
  const Safetensors golden(kGolden / "kld.safetensors");
  const auto other = ValuesOf<float>(golden, "logits_other");
  const auto ids = ValuesOf<int32_t>(golden, "tokens");
  const auto klds = ValuesOf<double>(golden, "kld_formula"), losses = ValuesOf<double>(golden, "nll_base_decoded");
  std::vector<float> logits(2 * 16 * 97);  // rows 8 to 14 of each window are scored
  for (size_t i = 0; i < other.size(); ++i) logits[i + (i < 7 * 97 ? 8 : 8 + 9) * 97] = other[i];
  WriteSafetensors(folder_ / "other.safetensors",
                   {{"logits", DType::kF32, {2, 16, 97}, std::as_bytes(std::span(logits))},
                    {"input_ids", DType::kI32, {2, 16}, std::as_bytes(std::span(ids))}});
  const std::string base = kGolden / "kld_base.bin", file = folder_ / "other.safetensors";
  const Json judged = Judged({base, file});
  EXPECT_EQ(judged.at("schema"), "tare.judge/1");
  const Json divergence = Cell(judged, file, "divergence").at("result"),
             perplexity = Cell(judged, base, "perplexity").at("result");
  EXPECT_NEAR(divergence.at("kld_largest"), std::ranges::max(klds), 1e-6);
  for (size_t window = 0; window < 2; ++window) {
    const auto sum = [&](const std::vector<double>& of) {
      return std::accumulate(of.begin() + static_cast<std::ptrdiff_t>(7 * window),
                             of.begin() + static_cast<std::ptrdiff_t>(7 * window + 7), 0.0);
    };
    EXPECT_NEAR(divergence.at("window_klds")[window], sum(klds), 7e-6);
    EXPECT_NEAR(perplexity.at("window_losses")[window], sum(losses), 1e-9);
    EXPECT_EQ(divergence.at("window_tokens")[window], 7);
  }
  EXPECT_EQ(Cell(judged, base, "divergence").at("result").at("kld"), 0);
  EXPECT_EQ(Cell(judged, base, "divergence").at("result").at("same_top"), 1);
}

// The reference: plain sums in double. Five tokens of a window are predicted.
TEST_F(JudgeTest, FiguresAreThoseOfPlainSums) {
  const Logits r(0, 1), b(0.8f, 3);
  double kld = 0, loss = 0;
  for (size_t row = 0; row < 180; ++row) {
    if (row % 6 == 5) continue;
    for (size_t i = 0; i < 11; ++i) kld += std::exp(LogP(r, row, i)) * (LogP(r, row, i) - LogP(b, row, i)) / 150;
    loss -= LogP(b, row, static_cast<size_t>(b.ids[row + 1])) / 150;
  }
  const Json judged = Judged({r_, b_});
  EXPECT_NEAR(Cell(judged, b_, "divergence").at("result").at("kld"), kld, 1e-6);
  EXPECT_NEAR(Cell(judged, b_, "perplexity").at("result").at("nll"), loss, 1e-6);
  EXPECT_EQ(Cell(judged, b_, "perplexity").at("result").at("tokens"), 150);
}

TEST_F(JudgeTest, ChangesArePairedByWindowsWithHolm) {
  const Outcome outcome = CallTare({"judge", r_, a_, b_});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("change: from " + r_));
  EXPECT_THAT(outcome.out, HasSubstr("change of each minus that of " + a_));
  EXPECT_THAT(outcome.out, HasSubstr("p < 0.05 after Holm over 2 changes, and 2 differences"));
  const Json judged = Judged({r_, a_, b_});
  const Json difference = Cell(judged, b_, "divergence").at("differences")[0];
  EXPECT_EQ(difference.at("figure"), "kld");
  EXPECT_TRUE(difference.at("significant"));
  EXPECT_GT(difference.at("low"), 0);
  EXPECT_GE(difference.at("p_holm").get<double>(), difference.at("p").get<double>());
  EXPECT_FALSE(Cell(judged, b_, "divergence").contains("bits"));
}

// As one text of 180 tokens in HDF5, cut as the reference is; .npy has no tokens, and takes the reference's.
TEST_F(JudgeTest, EveryFormHasTheSameFigures) {
  const Json expected = Cell(Judged({r_, b_}), b_, "divergence").at("result");
  for (const char* name : {"B.h5", "B.npz", "B.npy"}) {
    const std::string file = folder_ / name;
    Logits(0.8f, 3).PutAs(file);
    EXPECT_EQ(Cell(Judged({r_, file}), file, "divergence").at("result"), expected) << name;
    if (file.ends_with("y")) continue;
    const Json alone = Judged({file, file, "--window", file.ends_with("5") ? "5" : "6"});
    EXPECT_EQ(alone.at("scored").at("windows"), file.ends_with("5") ? 36 : 30) << name;
  }
  EXPECT_THAT(CallTare({"judge", r_, b_, "--window", "5"}).err,
              HasSubstr("R.safetensors: tokens of a window: got 6, expected the 5 of --window"));
}

// [T, V] are of one text: the last of its 180 tokens comes after 179 others, whatever the windows.
TEST_F(JudgeTest, ContextsOfOneTextAreAllOfIt) {
  const std::string file = folder_ / "B.h5";
  Logits(0.8f, 3).PutAs(file);
  const Json by = Cell(Judged({file, file, "--window", "6"}), file, "perplexity").at("result").at("by_position");
  EXPECT_EQ(by.back().at("last"), 255);  // of 128 to 255
  EXPECT_EQ(Cell(Judged({r_, file}), r_, "perplexity").at("result").at("by_position").back().at("last"), 7);
}

TEST_F(JudgeTest, SaysWhichPositionsItScores) {
  const Outcome outcome = CallTare({"judge", r_, b_, "--by", "position"});
  EXPECT_THAT(outcome.out, HasSubstr("scored: tokens after 1 to 5 others in each of 30 windows of 6"));
  EXPECT_THAT(outcome.out, HasSubstr(b_ + ", divergence\npredicted from  tokens"));
  EXPECT_EQ(Judged({r_, b_}).at("scored"), Json::parse(R"({"windows": 30, "window": 6, "first": 0, "last": 4})"));
  const std::string folder = TARE_SOURCE_DIR "/tests/fuzz/corpus/predictions/";
  EXPECT_THAT(CallTare({"judge", folder + "logits.safetensors", folder + "base.kld"}).out,
              HasSubstr("scored: tokens after 4 to 5 others in each of 3 windows of 6"));
}

TEST_F(JudgeTest, IsTheSameOnAnyNumberOfThreads) {
  const auto threads = [&](const char* n) { return CallTare({"judge", r_, a_, b_, "--threads", n}).out; };
  EXPECT_EQ(threads("1"), threads("3"));
}

TEST_F(JudgeTest, OtherTextsAreRefusedWithBothValues) {
  const std::string x = folder_ / "x.safetensors";
  Logits logits(0, 1);
  logits.ids[7] = (logits.ids[7] + 1) % 11;
  logits.Put(x);
  EXPECT_THAT(Refused(x), testing::MatchesRegex("tare: .*x.safetensors: token 7: got [0-9]+, expected [0-9]+ as in "
                                                ".*R.safetensors\n"));
  logits.windows = 29;
  logits.values.resize(29 * 66);
  logits.ids.resize(29 * 6);
  logits.Put(x);
  EXPECT_THAT(Refused(x), HasSubstr("x.safetensors: windows: got 29, expected 30 as in "));
  EXPECT_THAT(Refused(kGolden / "kld_base.bin"), HasSubstr("vocabulary: got 97, expected 11 as in "));
  EXPECT_EQ(CallTare({"judge", r_}).exit_code, 2);
  EXPECT_THAT(CallTare({"judge", r_, a_, "--json", a_}).err, HasSubstr("is both an input and an output"));
}

TEST_F(JudgeTest, AReportDrawsItsChangesAndDifferences) {
  const std::string json = folder_ / "judged.json", page = folder_ / "judged.html";
  ASSERT_EQ(CallTare({"judge", r_, a_, b_, "--json", json}).exit_code, 0);
  const Outcome outcome = CallTare({"report", json, "--out", page});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string html = GetFile(page);
  for (const std::string& pair : {a_ + " - " + r_, b_ + " - " + r_, b_ + " - " + a_})
    EXPECT_THAT(html, HasSubstr(pair));
}

// The guide's commands, on files of its names.
TEST_F(JudgeTest, TheGuidesCommandsRun) {
  const std::string guide = GetFile(TARE_SOURCE_DIR "/docs/guides/other-tools.md"), corpus = TARE_SOURCE_DIR "/tests/";
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  for (const char* name : {"f16.kld", "q4_k.kld"})
    std::filesystem::copy_file(corpus + "fuzz/corpus/predictions/base.kld", name);
  for (const char* name : {"f16", "q4"}) {
    std::filesystem::create_directory(name);
    std::filesystem::copy_file(corpus + "data/harness/samples_piqa.jsonl", std::string(name) + "/samples_piqa.jsonl");
  }
  Logits vllm(0, 1);
  vllm.windows = 3;
  vllm.ids = ValuesOf<int32_t>(Safetensors(corpus + "fuzz/corpus/predictions/logits.safetensors"), "input_ids");
  vllm.PutZip("vllm.npz");
  int commands = 0;
  for (size_t at = 0; (at = guide.find("\n    tare judge ", at)) != guide.npos; ++at, ++commands) {
    std::istringstream words(guide.substr(at + 10, guide.find('\n', at + 1) - at - 10));
    const Outcome outcome = CallTare({std::istream_iterator<std::string>(words), {}});
    EXPECT_EQ(outcome.exit_code, 0) << words.str() << outcome.err;
  }
  EXPECT_EQ(commands, 2);
  std::filesystem::current_path(before);
}

// llama-perplexity runs <s> in the place of a window's first token.
TEST_F(JudgeTest, FirstTokensMayDifferFromABaseFiles) {
  const std::string folder = TARE_SOURCE_DIR "/tests/fuzz/corpus/predictions/", x = folder_ / "x.kld";
  std::string base = GetFile(folder + "base.kld");
  base[20 + 4 * 6] = static_cast<char>((base[20 + 4 * 6] + 1) % 11);
  PutFile(x, base);
  EXPECT_EQ(CallTare({"judge", x, folder + "logits.safetensors"}).exit_code, 0);
}

}  // namespace
}  // namespace tare::judge_test
