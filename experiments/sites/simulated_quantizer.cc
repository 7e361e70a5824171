// SPDX-License-Identifier: Apache-2.0
#include "experiments/sites/simulated_quantizer.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/elementwise/rows.h"
#include "quant/base/error.h"
#include "quant/format/round.h"

namespace tare {
namespace {

using Kind = Granularity::Kind;

void CheckRule(const Rule& rule, const ModelConfig& config) {
  if (rule.format == Format::kF32) return;
  for (const Site site : rule.sites) {
    if (site != Site::kAttnLogits) {
      Fail("plan rule '{}': this build cannot simulate the site {}; expected attn_logits", rule.text, Name(site));
    }
  }
  if (rule.options != RuleOptions{})
    Fail("plan rule '{}': this build cannot simulate its options; try it without them", rule.text);
  const auto check = [&](const std::optional<IndexRange>& range, int base, int count, const char* what) {
    if (range && range->first >= base + count) {
      Fail("plan rule '{}': selects {} {} and above, but the model has {} {}{}", rule.text, what, range->first, count,
           what, count == 1 ? "" : "s");
    }
  };
  check(rule.selector.layers, 0, config.layers, "layer");
  check(rule.selector.heads, 0, config.heads, "head");
  check(rule.selector.maps, 1, config.Differential() ? 2 : 1, "map");
}

float CheckedAbsmax(const SiteBlock& block, int64_t r) {
  const std::span<const float> row = block.Row(r);
  const float absmax = AbsMax(row.data(), row.size());
  if (!std::isfinite(absmax)) {
    Fail(
        "{}, layer {}, head {}, sequence {}, row {}: NaN or infinity, which no scale can hold; try the model without a "
        "plan",
        Name(block.site), block.layer, block.head, block.sequence, block.first_row + r);
  }
  return absmax;
}

}  // namespace

SimulatedQuantizer::SimulatedQuantizer(Plan plan, const ModelConfig& config)
    : plan_(std::move(plan)), layers_(config.layers), heads_(config.heads) {
  for (const Rule& rule : plan_.rules()) CheckRule(rule, config);
}

bool SimulatedQuantizer::SpansRows() const {
  return std::ranges::any_of(plan_.rules(), [](const Rule& rule) {
    return rule.format != Format::kF32 && rule.granularity.kind != Kind::kRow;
  });
}

bool SimulatedQuantizer::Wants(Site site, int) const { return plan_.Touches(site); }
bool SimulatedQuantizer::NeedsSurvey(Site site, int) const { return plan_.Touches(site) && SpansRows(); }

void SimulatedQuantizer::BeginBatch(int64_t slots) {
  absmax_ = std::vector<std::atomic<uint32_t>>(static_cast<size_t>(slots) * layers_ * (heads_ + plan_.rules().size()));
}

std::atomic<uint32_t>& SimulatedQuantizer::Absmax(const SiteBlock& block, const Rule& rule) {
  const bool by_tensor = rule.granularity.kind == Kind::kTensor;
  const auto place = by_tensor ? heads_ + (&rule - plan_.rules().data()) : ptrdiff_t{block.head};
  const size_t layer = static_cast<size_t>(block.slot) * layers_ + block.layer;
  return absmax_[layer * (heads_ + plan_.rules().size()) + place];
}

void SimulatedQuantizer::Survey(const SiteBlock& block, int) {
  const Rule* rule = plan_.Match(block.site, block.layer, block.head, block.map);
  if (rule == nullptr || rule->format == Format::kF32 || rule->granularity.kind == Kind::kRow) return;
  float absmax = 0;
  for (int64_t r = 0; r < block.rows; ++r) absmax = std::max(absmax, CheckedAbsmax(block, r));
  std::atomic<uint32_t>& shared = Absmax(block, *rule);
  const auto bits = std::bit_cast<uint32_t>(absmax);
  uint32_t seen = shared.load(std::memory_order_relaxed);
  while (seen < bits && !shared.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
  }
}

void SimulatedQuantizer::Visit(const SiteBlock& block, int) {
  const Rule* rule = plan_.Match(block.site, block.layer, block.head, block.map);
  if (rule == nullptr || rule->format == Format::kF32) return;
  const bool by_row = rule->granularity.kind == Kind::kRow;
  const float shared = by_row ? 0.0f : std::bit_cast<float>(Absmax(block, *rule).load(std::memory_order_relaxed));
  for (int64_t r = 0; r < block.rows; ++r) {
    const float absmax = by_row ? CheckedAbsmax(block, r) : shared;
    FakeQuantize(block.Row(r).data(), block.Row(r).size(), ScaleFor(absmax, rule->format), rule->format);
  }
}

}  // namespace tare
