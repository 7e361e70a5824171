// SPDX-License-Identifier: Apache-2.0
// classify and divergence on a golden classifier: figures from timm's logits in double, 8-bit pixels,
// the same figures from the passes of divergence, and files that do not fit.
#include "experiments/tasks/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/tasks/perplexity.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/golden.h"

namespace tare::classify_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::filesystem::path kFile = GoldenFolder("vit-dwee") / "expected.safetensors";

class ClassifyTest : public testing::Test {
 protected:
  TaskResult Run(const TaskKind& kind, const std::filesystem::path& file, const char* plan = "",
                 const TaskOptions& options = {}) {
    PlanRun run(Plan::Parse(plan), Carrying::kSimulated, ModelSitesOf(model_));
    return kind.read(file, model_, options)(model_, run, {});
  }
  // Images whose pixel i is i % 251 in 8 bits, or what timm's normalization makes of that, with these labels.
  std::filesystem::path File(bool bytes, const std::vector<int64_t>& labels, int64_t images = 3) {
    const std::vector<int64_t> shape{images, 3, 24, 24};
    std::vector<uint8_t> stored(static_cast<size_t>(images) * 3 * 24 * 24);
    std::vector<float> floats;
    for (size_t i = 0; i < stored.size(); ++i) {
      stored[i] = static_cast<uint8_t>(i % 251);
      floats.push_back((static_cast<float>(stored[i]) / 255 - 0.5f) / 0.5f);
    }
    const std::filesystem::path path = folder_ / (bytes ? "b.safetensors" : "f.safetensors");
    WriteSafetensors(path, {{"images", bytes ? DType::kU8 : DType::kF32, shape,
                             bytes ? std::as_bytes(std::span(stored)) : std::as_bytes(std::span(floats))},
                            {"labels", DType::kI64, {std::ssize(labels)}, std::as_bytes(std::span(labels))}});
    return path;
  }
  TemporaryFolder folder_;
  Model model_{GoldenFolder("vit-dwee")};
};

TEST_F(ClassifyTest, FiguresAreThoseOfTimmsLogits) {
  const Safetensors expected(kFile);
  const std::vector<float> logits = ValuesOf<float>(expected, "logits");
  const std::vector<int64_t> labels = ValuesOf<int64_t>(expected, "labels");
  double nll = 0;
  std::string first, fifth;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::span row = std::span(logits).subspan(i * 11, 11);
    double sum = 0;
    for (const float x : row) sum += std::exp(double{x});
    nll += (std::log(sum) - double{row[static_cast<size_t>(labels[i])]}) / static_cast<double>(labels.size());
    const int64_t rank = RankOf(row, labels[i]);
    first += rank < 1 ? '1' : '0', fifth += rank < 5 ? '1' : '0';
  }
  const Json figures = Run(kClassifyTask, kFile).figures;
  EXPECT_EQ(figures.at("acc_outcomes"), first);
  EXPECT_EQ(figures.at("acc5_outcomes"), fifth);
  EXPECT_NEAR(figures.at("nll").get<double>(), nll, 1e-4);
  EXPECT_EQ(figures.at("images"), 2);
  const std::optional<Figures> read = ReadFigures(figures, kClassifyTask);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->list[2].windows.counts, (std::vector<double>{1, 1}));
}

TEST_F(ClassifyTest, EightBitPixelsAreNormalized) {
  EXPECT_EQ(Run(kClassifyTask, File(true, {1, 2, 3})).figures, Run(kClassifyTask, File(false, {1, 2, 3})).figures);
}

TEST_F(ClassifyTest, AFolderIsAFileOfItsImages) {
  const std::filesystem::path data = std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/images";
  const Safetensors expected(data / "expected.safetensors");
  const std::vector<float> pixels = ValuesOf<float>(expected, "folder.images");  // as timm prepares them
  const std::vector<int64_t> labels = ValuesOf<int64_t>(expected, "folder.labels");
  WriteSafetensors(folder_ / "f.safetensors",
                   {{"images", DType::kF32, {6, 3, 24, 24}, std::as_bytes(std::span(pixels))},
                    {"labels", DType::kI64, {6}, std::as_bytes(std::span(labels))}});
  for (const TaskKind* kind : {&kImagenetTask, &kDivergenceTask}) {
    const Json of_file = Run(*kind, folder_ / "f.safetensors", "weights=int3/channel").figures;
    EXPECT_EQ(Run(*kind, data / "folder", "weights=int3/channel").figures, of_file);
  }
  const TaskOptions part{.windows = {.limit = 2, .from = TakeFrom::kStart}};
  EXPECT_EQ(Run(kImagenetTask, data / "folder", "", part).figures.at("image_losses").size(), 2u);
  const std::vector<TaskSpec> specs = ParseTasks("imagenet=" + (data / "folder/").string());
  EXPECT_EQ(specs[0].Name(), "imagenet:folder");
  EXPECT_EQ(ReadTasks(specs, model_, {})[0].sha256, Sha256OfInput(data / "folder"));
}

TEST_F(ClassifyTest, FoldersThatDoNotFitAreRefused) {
  const auto refused = [&](const std::filesystem::path& folder, const char* message) {
    EXPECT_THAT(Call([&] { Run(kImagenetTask, folder); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  for (int i = 0; i < 12; ++i) {
    const std::filesystem::path of_class = folder_ / "many" / Formatted("n{}", i);
    std::filesystem::create_directories(of_class);
    PutFile(of_class / "x.png", "no image");
  }
  refused(folder_ / "many", "many: got 12 classes, expected at most the model's 11");
  std::filesystem::remove_all(folder_ / "many/n11");
  refused(folder_ / "many", "x.png: got another format");
  EXPECT_THAT(Call([&] { ParseTasks("choice=" + folder_.path().string()); }),
              ThrowsMessage<Error>(HasSubstr("got a folder, expected a file")));
  EXPECT_THAT(Call([&] { Images(folder_.path(), LoadConfig(GoldenFolder("clip-vision"))); }),
              ThrowsMessage<Error>(HasSubstr("got a folder for clip_vision_model, expected a file")));
}

TEST_F(ClassifyTest, DivergenceOfAPlanGivesItsAccuracyToo) {
  const std::filesystem::path file = File(true, {1, 2, 3});
  EXPECT_EQ(Run(kDivergenceTask, file).figures.at("kld"), 0.0);
  const TaskResult planned = Run(kDivergenceTask, file, "weights=int3/channel");
  EXPECT_GT(planned.figures.at("kld").get<double>(), 0.0);
  EXPECT_EQ(planned.figures.at("tokens"), 3);
  EXPECT_EQ(planned.of_text, Run(kClassifyTask, file, "weights=int3/channel").figures);
}

TEST_F(ClassifyTest, APartOfTheImagesKeepsItsLabels) {
  const std::filesystem::path file = File(true, {1, 2, 3});
  const Json all = Run(kClassifyTask, file).figures,
             first = Run(kClassifyTask, file, "", {.windows = {.limit = 2, .from = TakeFrom::kStart}}).figures;
  EXPECT_EQ(first.at("image_losses").size(), 2u);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(first.at("image_losses")[i].get<double>(), all.at("image_losses")[i].get<double>(), 1e-5);
}

TEST_F(ClassifyTest, WhatDoesNotFitIsRefused) {
  const auto refused = [&](const std::filesystem::path& file, const TaskOptions& options, const char* message) {
    EXPECT_THAT(Call([&] { Run(kDivergenceTask, file, "", options); }), ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused(File(true, {0, 11, 3}), {}, "labels: index 1: got 11, expected 0 to 10");
  refused(File(true, {0, 1}), {}, "labels: got 2, expected one for each of 3 images");
  refused(File(true, {0, 1, 2, 3}), {}, "labels: got 4, expected one for each of 3 images");
  refused(File(true, {0, 1, 2}), {.windows = {.window = 5}}, "expected none for images");
  refused(File(true, {0, 1, 2}), {.reference = GoldenFolder("vit-reg4-odd")}, "--reference: got vit-reg4-odd");
  EXPECT_THAT(Call([&] { ReadTasks({{&kPerplexityTask, kFile}}, model_, {}); }),
              ThrowsMessage<Error>(HasSubstr("expected a task of classifiers of images: divergence or classify")));
  EXPECT_THAT(Call([&] { ReadTasks({{&kClassifyTask, kFile}}, Model(GoldenFolder("llama-mha")), {}); }),
              ThrowsMessage<Error>(HasSubstr("expected a task of language models")));
}

}  // namespace
}  // namespace tare::classify_test
