// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/sequence_cache.h"

#include <algorithm>
#include <memory>

#include "experiments/model/attention/rotary.h"
#include "quant/base/error.h"
#include "quant/base/memory.h"

namespace tare {
namespace {

CacheShape ShapeOf(const ModelConfig& config) {
  return {
      .k_heads = config.kv_heads, .k_width = config.head_dim, .v_heads = config.kv_heads, .v_width = config.head_dim};
}

double BytesOf(const ModelConfig& config, const CachePlan& plan, int64_t tokens) {
  const auto of = [&](int layer) { return CacheBytes(ShapeOf(config), plan.OfLayer(layer), tokens); };
  if (!config.kinds.empty()) {
    double bytes = 0;
    for (int layer = 0; layer < config.layers; ++layer) {
      if (config.Kind(layer) == LayerKind::kAttention) bytes += of(layer);
      if (config.Kind(layer) == LayerKind::kMamba)
        bytes += 4.0 * config.scan_channels * (config.scan_states + config.scan_taps - 1.0);
    }
    return bytes;
  }
  int named = 0;  // layers behind all that a rule names are alike
  for (const Rule& rule : plan.rules.rules())
    for (const IndexRange& range : rule.selector.layers)
      named = std::max(named, std::min(range.last, config.layers - 1) + 1);
  double bytes = named < config.layers ? of(named) * (config.layers - named) : 0;
  for (int layer = 0; layer < named; ++layer) bytes += of(layer);
  return bytes;
}

// The rule with its budget in keys, rounded to whole pages.
KeepRule InKeys(const ModelConfig& config, const CachePlan& plan) {
  KeepRule keep = plan.policy.keep;
  if (keep.bytes == 0) return keep;
  while (BytesOf(config, plan, keep.keys + kPageTokens) <= static_cast<double>(keep.bytes) &&
         keep.keys < config.max_positions)
    keep.keys += kPageTokens;
  if (keep.keys == 0)
    Fail("cache {}: got a budget of {} bytes, expected at least {:.0f}, of {} tokens", Name(plan), keep.bytes,
         BytesOf(config, plan, kPageTokens), kPageTokens);
  return keep;
}

}  // namespace

SequenceCache::SequenceCache(const ModelConfig& config, const CachePlan& plan)
    : skip_(plan.policy.skip), rotary_(config.rotary) {
  const CacheShape shape = ShapeOf(config);
  const KeepRule keep = InKeys(config, plan);
  const bool shares = std::ranges::contains(config.kinds, LayerKind::kSharedAttention);
  if (keep.Drops() && shares)
    Fail("cache {}: got keys that several layers share, expected one that sees its own; try without keep=", Name(plan));
  if (keep.Drops() && config.sinks)
    Fail("cache {}: got heads with learned sinks, expected none; try without keep=", Name(plan));
  for (int layer = 0; layer < config.layers; ++layer) {
    owns_.push_back(config.Kind(layer) == LayerKind::kAttention);
    slots_.push_back(owns_.back()                  ? static_cast<int>(layers_.size())
                     : config.KeysLayer(layer) < 0 ? -1
                                                   : slots_[static_cast<size_t>(config.KeysLayer(layer))]);
    if (config.Kind(layer) == LayerKind::kMamba)
      scans_.emplace(layer, ScanState(config.scan_channels, config.scan_states, config.scan_taps));
    if (!owns_.back()) continue;
    if (keep.Drops() && config.Window(layer) > 0)
      Fail("cache {}: layer {} sees a window of {} keys, expected one that sees all; try without keep=", Name(plan),
           layer, config.Window(layer));
    const CacheRules rules = plan.OfLayer(layer);
    const bool turned = rules.keys == KeptKeys::kBeforeRotary;
    const auto rotary = turned ? KeyRotaryOf(config, layer, "cache " + Name(plan)) : nullptr;
    layers_.push_back({KvCache(shape, rules, rotary), KeptTokens(keep, rules)});
  }
}

void SequenceCache::Update(int layer, const DecodeHeads& heads, const DecodeSequence& s) {
  OneLayer& one = layers_.at(static_cast<size_t>(slots_.at(static_cast<size_t>(layer))));
  one.kept.Update(heads, s, one.cache);
  if (one.cache.tokens() + one.kept.dropped() == prompt_) one.kept.EndPrompt(heads, one.cache);
}

int64_t SequenceCache::TokensAtOnce(int64_t most) const {
  if (skip_ > 0) most = 1;
  for (const auto& [cache, kept] : layers_) {
    const CacheRules& rules = cache.rules();
    if (rules.k.ByChannel() || rules.v.ByChannel()) most = std::min(most, kPageTokens - cache.tokens() % kPageTokens);
    most = std::min(rules.last > 0 ? 1 : most, kept.Room(cache));
  }
  return most;
}

void SequenceCache::Truncate(int64_t tokens) {
  for (const OneLayer& layer : layers_) {
    if (layer.kept.dropped() > 0)
      Fail("cache, truncate: got a cache of which {} keys were dropped, expected a whole one", layer.kept.dropped());
  }
  if (!scans_.empty()) Fail("cache, truncate: got a model with a scan, whose state does not go back; try a copy");
  for (OneLayer& layer : layers_) layer.cache.Truncate(tokens);
}

size_t SequenceCache::Bytes() const {
  size_t bytes = 0;
  for (const OneLayer& layer : layers_) bytes += layer.cache.Bytes();
  for (const auto& [layer, scan] : scans_) bytes += scan.Bytes();
  return bytes;
}

void CheckCacheFits(const ModelConfig& config, const CachePlan& plan, int64_t tokens) {
  const KeepRule& keep = plan.policy.keep;
  const bool dropping = keep.Drops() && !keep.DropsOnce();  // which needs the prompt whole
  const double bytes = BytesOf(config, plan, dropping ? std::min(tokens, InKeys(config, plan).keys) : tokens);
  const double memory = MachineMemory();
  if (bytes > memory)
    Fail("cache {}: {} tokens take {:.1f} GB, more than the {:.1f} GB of memory; try fewer tokens or fewer bits",
         Name(plan), tokens, bytes / 1e9, memory / 1e9);
}

}  // namespace tare
