// SPDX-License-Identifier: Apache-2.0
// zero_shot and retrieval on the golden towers: embeddings equal the reference's at length 1, ranks are computed by
// hand, and input that does not fit is refused.
#include "experiments/tasks/contrast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "experiments/tasks/classify.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/message.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/clip_items.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"

namespace tare::contrast_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class ContrastTest : public testing::Test {
 protected:
  std::filesystem::path Items(const std::vector<int64_t>& labels, int64_t times = 1) {
    const std::filesystem::path file = folder_.path() / "items.safetensors";
    PutClipItems(file, labels, times);
    return file;
  }
  // For each golden image the prompt whose reference embedding has the largest cosine; another for the second image.
  static std::vector<int64_t> NearestPrompts() {
    const Safetensors vision(GoldenFolder("clip-vision") / "expected.safetensors"),
        text(GoldenFolder("clip-text") / "expected.safetensors");
    const std::vector<float> images = ValuesOf<float>(vision, "image_embed"),
                             prompts = ValuesOf<float>(text, "text_embed");
    const size_t width = images.size() / 3;
    std::vector<int64_t> nearest(3);
    for (size_t image = 0; image < 3; ++image) {
      double best = -2;
      for (size_t prompt = 0; prompt < 3; ++prompt) {
        double dot = 0, a = 0, b = 0;
        for (size_t i = 0; i < width; ++i) {
          const double x = images[image * width + i], y = prompts[prompt * width + i];
          dot += x * y, a += x * x, b += y * y;
        }
        if (dot / std::sqrt(a * b) <= best) continue;
        best = dot / std::sqrt(a * b);
        nearest[image] = static_cast<int64_t>(prompt);
      }
    }
    nearest[1] = (nearest[1] + 1) % 3;
    return nearest;
  }
  TemporaryFolder folder_;
};

TEST(RankTest, TheFirstOfEqualsIsAhead) {
  const float cosines[] = {0.5f, 0.9f, 0.5f, -1};
  EXPECT_EQ(RankOf(cosines, 0), 1);
  EXPECT_EQ(RankOf(cosines, 1), 0);
  EXPECT_EQ(RankOf(cosines, 2), 2);
  EXPECT_EQ(RankOf(cosines, 3), 3);
}

TEST_F(ContrastTest, EmbeddingsAreTheReferencesAtLengthOne) {
  const std::filesystem::path file = Items({0, 1, 2});
  for (const auto& [folder, name] : {std::pair("clip-vision", "image_embed"), {"clip-text", "text_embed"}}) {
    Model tower(GoldenFolder(folder));
    const Embeddings all = EmbedAll(tower, {}, file, {}, {});
    const Safetensors expected(GoldenFolder(folder) / "expected.safetensors");
    std::vector<float> reference = ValuesOf<float>(expected, name);
    for (int64_t row = 0; row < all.rows(); ++row) {
      double squares = 0;
      for (int64_t i = 0; i < all.width; ++i) squares += std::pow(reference[row * all.width + i], 2);
      for (int64_t i = 0; i < all.width; ++i) reference[row * all.width + i] /= static_cast<float>(std::sqrt(squares));
    }
    EXPECT_TRUE(AllNear(all.values, reference, 2e-5)) << name;
  }
}

// Golden embeddings: each image's label is the prompt nearest by the reference's own embeddings, but the second's.
TEST_F(ContrastTest, BothTowersGiveTheSameFiguresAndLabelsDecide) {
  const std::filesystem::path file = Items(NearestPrompts());
  for (const auto& [own, other] : {std::pair("clip-vision", "clip-text"), {"clip-text", "clip-vision"}}) {
    Model tower(GoldenFolder(own));
    PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(tower));
    const TaskResult result = kZeroShotTask.read(file, tower, {.other_tower = GoldenFolder(other)})(tower, run, {});
    EXPECT_EQ(result.figures.at("acc_outcomes"), "101") << own;
    EXPECT_EQ(result.figures.at("acc5"), 1.0);
  }
}

// --limit spreads over the file, whose order may be that of its classes, and takes each image's own label with it.
TEST_F(ContrastTest, APartOfTheImagesKeepsItsLabels) {
  std::vector<int64_t> labels = NearestPrompts();
  for (size_t i = 0; i < 6; ++i) labels.push_back(labels[i]);
  const std::filesystem::path file = Items(labels, 3);
  Model tower(GoldenFolder("clip-vision"));
  bool later = false;
  for (const int64_t limit : {1, 2, 4}) {
    for (const TakeFrom from : {TakeFrom::kSpread, TakeFrom::kStart}) {
      const TaskOptions options{.windows = {.limit = limit, .from = from}, .other_tower = GoldenFolder("clip-text")};
      PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(tower));
      const std::string outcomes = kZeroShotTask.read(file, tower, options)(tower, run, {}).figures.at("acc_outcomes");
      const std::vector<size_t> places = TakenPlaces(9, static_cast<size_t>(limit), from);
      ASSERT_EQ(outcomes.size(), places.size());
      for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(outcomes[i], places[i] % 3 == 1 ? '0' : '1') << places[i];
      later = later || places.back() >= places.size();
    }
  }
  EXPECT_TRUE(later) << "only the first images were taken, which have their labels anyhow";
}

// Two captions of one image are a sample of two items, where every image has one they are items.
TEST_F(ContrastTest, CaptionsOfOneImageAreASample) {
  Model tower(GoldenFolder("clip-text"));
  const auto retrieve = [&](const std::vector<int64_t>& labels) {
    PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(tower));
    const TaskOptions options{.other_tower = GoldenFolder("clip-vision")};
    return kRetrievalTask.read(Items(labels), tower, options)(tower, run, {}).figures;
  };
  const auto shared = retrieve({2, 2, 0});
  EXPECT_EQ(shared.at("image_prompts"), (std::vector<int>{1, 2}));  // of images 0 and 2; image 1 has none
  const std::string outcomes = shared.at("image_r1_outcomes");
  EXPECT_EQ(shared.at("image_right"), (std::vector<int>{outcomes[2] - '0', outcomes[0] - '0' + outcomes[1] - '0'}));
  EXPECT_EQ(shared.at("image_right5"), (std::vector<int>{1, 2}));          // five of three are all
  EXPECT_EQ(shared.at("text_r1_outcomes").get<std::string>().size(), 2u);  // nor is it asked for one
  EXPECT_EQ(shared.at("text_r5"), 1.0);
  const std::optional<Figures> figures = ReadFigures(shared, kRetrievalTask);
  ASSERT_TRUE(figures.has_value());
  EXPECT_EQ(figures->list[0].windows.counts, (std::vector<double>{1, 2}));
  EXPECT_TRUE(figures->list[2].windows.counts.empty());  // of images, each with its own captions
  EXPECT_FALSE(retrieve({2, 1, 0}).contains("image_prompts"));
}

TEST_F(ContrastTest, WhatDoesNotFitIsRefused) {
  Model vision(GoldenFolder("clip-vision"));
  const auto read = [&](const std::vector<int64_t>& labels, const TaskOptions& options) {
    PlanRun run(Plan::Parse(""), Carrying::kSimulated, ModelSitesOf(vision));
    kZeroShotTask.read(Items(labels), vision, options)(vision, run, {});
  };
  const TaskOptions text{.other_tower = GoldenFolder("clip-text")};
  EXPECT_THAT(Call([&] { read({0, 1, 2}, {.other_tower = GoldenFolder("clip-vision")}); }),
              ThrowsMessage<Error>(HasSubstr("expected the text tower that belongs to clip-vision")));
  EXPECT_THAT(Call([&] { read({0, 1, 2}, {.other_tower = GoldenFolder("diffclip-text")}); }),
              ThrowsMessage<Error>(HasSubstr("with projection_dim 24, expected 20 as of clip-vision")));
  EXPECT_THAT(Call([&] { read({0, 1, 3}, text); }),
              ThrowsMessage<Error>(HasSubstr("labels: index 2: got 3, expected 0 to 2")));
  EXPECT_THAT(Call([&] { read({0, 1}, text); }),
              ThrowsMessage<Error>(HasSubstr("labels: got 2, expected one for each of 3 images")));
}

TEST_F(ContrastTest, TheOtherTowerIsTheOneBesideIt) {
  const std::filesystem::path clip = GoldenFolder("");
  EXPECT_EQ(OtherTower(Model(clip / "clip-vision"), {}), clip / "clip-text");
  EXPECT_EQ(OtherTower(Model(clip / "clip-text"), {}), clip / "clip-vision");
  EXPECT_EQ(OtherTower(Model(clip / "clip-text"), {.other_tower = "elsewhere"}), "elsewhere");
  std::filesystem::copy(clip / "clip-vision", folder_.path() / "b16-vision");
  const Model alone(folder_.path() / "b16-vision");
  EXPECT_THAT(Call([&] { OtherTower(alone, {}); }),
              ThrowsMessage<Error>(HasSubstr("--other-tower: got no text tower beside ")));
  std::filesystem::copy(clip / "clip-text", folder_.path() / "b16-text");
  EXPECT_EQ(OtherTower(alone, {}), folder_.path() / "b16-text");
}

}  // namespace
}  // namespace tare::contrast_test
