// SPDX-License-Identifier: Apache-2.0
// Parts of a layer, one after another, are the layer, bit for bit; each runs no step of another.
#include "experiments/model/layer_part.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "experiments/model/model.h"
#include "tests/support/golden.h"

namespace tare::layer_part_test {
namespace {

// Which of a layer's sites a pass shows.
class Shown : public SiteVisitor {
 public:
  explicit Shown(int layer) : layer_(layer) {}
  bool Wants(Site, std::optional<int> layer) const override { return layer == layer_; }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    sites.insert(block.site);
  }
  std::set<Site> sites;

 private:
  int layer_;
  std::mutex mutex_;
};

TokenBatch SomeTokens() {
  TokenBatch batch;
  for (int s = 0; s < 2; ++s) {
    std::vector<int32_t> tokens;
    for (int i = 0; i < 20 + s; ++i) tokens.push_back((7 * i + 31 * s) % 80 + 1);
    batch.Add(s, tokens);
  }
  return batch;
}

bool Equal(const AlignedBuffer<float>& a, const AlignedBuffer<float>& b) {
  return std::ranges::equal(a.span(), b.span());
}

// The inputs of the layer's linear layers before which a part may end, in order.
std::vector<Site> Ends(const ModelConfig& config, int layer) {
  std::vector<Site> ends;
  for (const LinearPlace& place : LinearOf(FamilyOf(config), config, layer)) {
    if (place.input == Site::kOProjIn || place.input == Site::kGateProjIn ||
        (place.input == Site::kUpProjIn && !std::ranges::contains(ends, Site::kGateProjIn)))
      ends.push_back(place.input);
  }
  return ends;
}

TEST(LayerPart, PartsAreTheLayer) {
  for (const char* golden : kGoldenCheckpoints) {
    Model model(GoldenFolder(golden));
    const TokenBatch batch = SomeTokens();
    Stream whole, parts;
    model.EmbedInto(batch, whole);
    model.EmbedInto(batch, parts);
    for (int layer = 0; layer < model.config().layers; ++layer) {
      model.RunLayer(batch, layer, whole);
      AlignedBuffer<float> input;
      std::optional<Site> from;
      for (const Site until : Ends(model.config(), layer)) {
        LayerPart part(from, &input, until, &input);
        model.RunLayer(batch, layer, parts, {}, &part);
        from = until;
      }
      LayerPart rest(from, &input, {}, nullptr);
      model.RunLayer(batch, layer, parts, {}, &rest);
      ASSERT_TRUE(Equal(whole.x, parts.x)) << golden << ' ' << layer;
      ASSERT_TRUE(Equal(whole.k, parts.k) && Equal(whole.v, parts.v) && Equal(whole.memory, parts.memory)) << golden;
    }
  }
}

TEST(LayerPart, RunsNoStepOfAnother) {
  Model model(GoldenFolder("diffllama-gqa"));
  const TokenBatch batch = SomeTokens();
  Stream stream;
  model.EmbedInto(batch, stream);
  const Stream before = stream;
  AlignedBuffer<float> input;
  const auto seen = [&](std::optional<Site> from, std::optional<Site> until) {
    Shown shown(0);
    SiteVisitor* const visitors[] = {&shown};
    LayerPart part(from, &input, until, &input);
    model.RunLayer(batch, 0, stream, visitors, &part);
    return shown.sites;
  };
  EXPECT_EQ(seen({}, Site::kQProjIn), (std::set{Site::kQProjIn, Site::kKProjIn, Site::kVProjIn}));
  const std::set<Site> to_attention = seen(Site::kQProjIn, Site::kOProjIn);
  EXPECT_TRUE(to_attention.contains(Site::kProbs) && to_attention.contains(Site::kOProjIn));
  EXPECT_FALSE(to_attention.contains(Site::kAttnOut));
  EXPECT_TRUE(Equal(stream.x, before.x));
  EXPECT_FALSE(seen(Site::kOProjIn, Site::kGateProjIn).contains(Site::kProbs));
  EXPECT_FALSE(Equal(stream.x, before.x));
  EXPECT_FALSE(seen(Site::kGateProjIn, {}).contains(Site::kOProjIn));
}

// What is given is what the products read.
TEST(LayerPart, BeginsWithWhatIsGiven) {
  Model model(GoldenFolder("qwen2"));
  ASSERT_TRUE(model.layers()[0].o.bias().empty());
  const TokenBatch batch = SomeTokens();
  Stream stream;
  model.EmbedInto(batch, stream);
  AlignedBuffer<float> input;
  LayerPart first({}, nullptr, Site::kOProjIn, &input);
  model.RunLayer(batch, 0, stream, {}, &first);
  std::ranges::fill(input.span(), 0.0f);
  const Stream before = stream;
  LayerPart second(Site::kOProjIn, &input, Site::kGateProjIn, nullptr);
  model.RunLayer(batch, 0, stream, {}, &second);
  EXPECT_TRUE(Equal(stream.x, before.x));  // W_o 0 adds nothing
}

}  // namespace
}  // namespace tare::layer_part_test
