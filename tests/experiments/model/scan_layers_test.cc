// SPDX-License-Identifier: Apache-2.0
// What a Mamba's sites show is what it computes: its output follows in double from the states, steps and gates that
// visitors see, and a change at a site changes what comes after it and nothing before. families/phi4flash_test.cc has
// branches, caches and plans.
#include "experiments/model/decoder.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "experiments/model/model.h"
#include "tests/support/compare.h"
#include "tests/support/golden.h"
#include "tests/support/logits.h"

namespace tare::scan_layers_test {
namespace {

// All rows of the first sequence's sites of one layer, one after another; doubles the values of one site.
class Rows : public SiteVisitor {
 public:
  explicit Rows(int layer, std::optional<Site> doubled = std::nullopt) : layer_(layer), doubled_(doubled) {}
  bool Wants(Site, std::optional<int> layer) const override { return layer == layer_; }
  bool Changes() const override { return doubled_.has_value(); }
  void Visit(const SiteBlock& block, int) override {
    if (block.head || block.sequence != 0) return;
    const std::lock_guard lock(mutex_);
    std::vector<float>& all = of[block.site];
    all.resize(std::max(all.size(), static_cast<size_t>((block.first_row + block.rows) * block.stride)));
    for (int64_t r = 0; r < block.rows; ++r) {
      if (block.site == doubled_) {
        for (float& value : block.Row(r)) value *= 2;
      }
      std::ranges::copy(block.Row(r), all.begin() + (block.first_row + r) * block.stride);
    }
  }
  std::map<Site, std::vector<float>> of;

 private:
  int layer_;
  std::optional<Site> doubled_;
  std::mutex mutex_;
};

std::map<Site, std::vector<float>> Seen(Model& model, int layer, std::optional<Site> doubled = std::nullopt) {
  Rows rows(layer, doubled);
  SiteVisitor* const visitors[] = {&rows};
  model.Forward(GoldenBatch("phi4flash"), visitors);
  return rows.of;
}

// Sums of 4 states in f32 of the same values, and one product more: a few units of 2^-24.
TEST(ScanLayersTest, SitesAreWhatIsComputed) {
  Model model(GoldenFolder("phi4flash"));
  const ScanParameters& p = model.layers()[2].scan;
  const int64_t C = p.channels, N = p.states, T = 37;
  const auto seen = Seen(model, 2);
  const auto at = [&](Site site, int64_t i) { return double{seen.at(site)[static_cast<size_t>(i)]}; };
  std::vector<float> states, out, gated;
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t c = 0; c < C; ++c) {
        const double before = t == 0 ? 0 : at(Site::kScanState, ((t - 1) * N + n) * C + c),
                     delta = at(Site::kScanDelta, t * C + c);
        states.push_back(static_cast<float>(std::exp(delta * p.a[n * C + c]) * before +
                                            delta * at(Site::kScanIn, t * C + c) * at(Site::kScanB, t * N + n)));
      }
    }
    for (int64_t c = 0; c < C; ++c) {
      double y = p.d[c] * at(Site::kScanIn, t * C + c);
      for (int64_t n = 0; n < N; ++n) y += at(Site::kScanState, (t * N + n) * C + c) * at(Site::kScanC, t * N + n);
      out.push_back(static_cast<float>(y));
      const double z = at(Site::kMambaGate, t * C + c);
      gated.push_back(static_cast<float>(at(Site::kScanOut, t * C + c) * z / (1 + std::exp(-z))));
    }
  }
  EXPECT_TRUE(AllNear(seen.at(Site::kScanState), states, 1e-6));
  EXPECT_TRUE(AllNear(seen.at(Site::kScanOut), out, 1e-6));
  EXPECT_TRUE(AllNear(seen.at(Site::kMambaOutProjIn), gated, 1e-6));
}

TEST(ScanLayersTest, AChangedSiteChangesWhatFollows) {
  Model model(GoldenFolder("phi4flash"));
  const Site order[] = {Site::kMambaInProjIn, Site::kScanIn,    Site::kMambaXProjIn, Site::kMambaDtProjIn,
                        Site::kScanDelta,     Site::kScanState, Site::kScanOut,      Site::kMambaOutProjIn};
  const auto plain = Seen(model, 0);
  for (const Site changed : order) {
    const auto seen = Seen(model, 0, changed);
    bool after = false;
    for (const Site site : order) {
      if (site == changed) {
        after = true;
        continue;
      }
      if (!after) {
        EXPECT_EQ(seen.at(site), plain.at(site)) << Name(changed) << ' ' << Name(site);
      }
    }
    EXPECT_NE(seen.at(Site::kLayerOut), plain.at(Site::kLayerOut)) << Name(changed);
  }
}

}  // namespace
}  // namespace tare::scan_layers_test
