// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/attention/sequence_cache.h"

#include <limits>
#include <numeric>

#include "experiments/model/config/rotary.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr int64_t kSinks = 4, kVotes = 32, kNeighbours = 7;

// Each vote becomes the largest of its neighbours.
std::vector<float> Pooled(const std::vector<float>& votes) {
  std::vector<float> pooled(votes.size());
  for (int64_t i = 0; i < std::ssize(votes); ++i) {
    const auto begin = votes.begin() + std::max<int64_t>(0, i - kNeighbours / 2);
    const auto end = votes.begin() + std::min(std::ssize(votes), i + kNeighbours / 2 + 1);
    pooled[static_cast<size_t>(i)] = *std::max_element(begin, end);
  }
  return pooled;
}

// The newest kVotes rows.
void KeepNewest(std::vector<float>& rows, int64_t width) {
  const int64_t over = std::ssize(rows) - kVotes * width;
  if (over > 0) rows.erase(rows.begin(), rows.begin() + over);
}

KeyMass Weighed(const KeepRule& rule) { return rule.WeighsDifference() ? KeyMass::kDifference : KeyMass::kMaps; }

// A layer's scans: how many there are, and each one's channels and values before its convolution.
struct ScanSizes {
  int scans;
  int64_t channels, history;
};

ScanSizes ScansOf(const ModelConfig& config, int layer) {
  const LayerKind kind = config.Kind(layer);
  const bool pair = kind == LayerKind::kMambaPair;
  const int64_t channels = pair ? config.PairChannels() : config.scan_channels;
  return {pair ? 2 : kind == LayerKind::kMamba ? 1 : 0, channels, (config.scan_taps - 1) * config.Convolved(channels)};
}

double BytesOf(const ModelConfig& config, const CachePlan& plan, int64_t tokens) {
  const auto of = [&](int layer) { return CacheBytes(CacheShapeOf(config, layer), plan.OfLayer(layer), tokens); };
  if (!config.kinds.empty() || config.kv_rank > 0) {
    double bytes = 0;
    for (int layer = 0; layer < config.layers; ++layer) {
      if (config.Kind(layer) == LayerKind::kAttention) bytes += of(layer);
      const auto [scans, channels, history] = ScansOf(config, layer);
      bytes += 4.0 * scans * static_cast<double>(history + channels * config.scan_states);
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

// Counts what the newest queries see: a pass ends where a page is rounded (TokensAtOnce), so all saw these codes.
void CountHeld(const KvCache& cache, int64_t queries, HeldKeys& held) {
  if (cache.rules().k.format == Format::kF32 && cache.rules().v.format == Format::kF32) return;
  for (int64_t seen = cache.tokens() - queries + 1; seen <= cache.tokens(); ++seen) {
    held.all += static_cast<double>(seen);
    held.rounded += static_cast<double>(std::clamp<int64_t>(seen - cache.rules().first, 0, cache.RoundedTokens()));
  }
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

CacheShape CacheShapeOf(const ModelConfig& config, std::optional<int> layer) {
  if (layer && config.CachesLatents(*layer)) return {1, config.rotary.Channels(config.head_dim), 1, config.kv_rank};
  return {
      .k_heads = config.kv_heads, .k_width = config.head_dim, .v_heads = config.kv_heads, .v_width = config.ValueDim()};
}

std::vector<int64_t> HeaviestKeys(std::span<const float> mass, int64_t kept, int64_t first, int64_t newest) {
  const int64_t tokens = std::ssize(mass), heaviest = kept - first - newest;
  TARE_CHECK(heaviest >= 0 && kept <= tokens);
  std::vector<int64_t> places(static_cast<size_t>(tokens));
  std::iota(places.begin(), places.end(), 0);
  const auto begin = places.begin() + first, end = places.end() - newest;
  std::ranges::stable_sort(begin, end, std::ranges::greater(),
                           [&](int64_t place) { return mass[static_cast<size_t>(place)]; });
  std::sort(begin, begin + heaviest);
  places.erase(begin + heaviest, end);
  return places;
}

KeptTokens::KeptTokens(const KeepRule& rule, const CacheRules& cache) : rule_(rule) {
  const int64_t least = 2 * (cache.first + cache.last) + 2 * kDropped;
  if (rule.Drops() && rule.keys < least)
    Fail("cache, keep: got a budget of {} keys, expected at least {} beside first={} and last={}", rule.keys, least,
         cache.first, cache.last);
}

int64_t KeptTokens::Room(const KvCache& cache) const {
  if (!rule_.Drops() || rule_.DropsOnce()) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(1, rule_.keys - cache.tokens());
}

void KeptTokens::Remember(const DecodeHeads& table, const DecodeSequence& s) {
  for (int64_t t = std::max<int64_t>(0, s.q.tokens - kVotes); t < s.q.tokens; ++t) {
    for (int h = 0; h < s.q.heads; ++h) queries_.insert(queries_.end(), s.q.Row(t, h), s.q.Row(t, h) + s.q.width);
    for (int h = 0; h < table.heads(); ++h) lambdas_.push_back(table.differential() ? s.lambda.At(t, h) : 0.0f);
  }
  KeepNewest(queries_, int64_t{s.q.heads} * s.q.width);
  KeepNewest(lambdas_, table.heads());
}

void KeptTokens::Update(const DecodeHeads& table, const DecodeSequence& s, KvCache& cache) {
  if (rule_.policy == KeepPolicy::kAll) return;
  if (rule_.DropsOnce()) return Remember(table, s);
  mass_.resize(table.groups().size());
  for (std::vector<float>& mass : mass_) mass.resize(static_cast<size_t>(cache.tokens()));
  if (rule_.policy != KeepPolicy::kWindow) AddKeyMass(Weighed(rule_), table, s, mass_);
  if (cache.tokens() >= rule_.keys) Drop(table, cache, rule_.keys - kDropped);
}

void KeptTokens::EndPrompt(const DecodeHeads& table, KvCache& cache) {
  if (!rule_.DropsOnce()) return;
  const int64_t queries = std::ssize(queries_) / (int64_t{table.q_heads()} * table.shape().k_width);
  mass_.assign(table.groups().size(), std::vector<float>(static_cast<size_t>(cache.tokens())));
  const DecodeSequence votes{
      .cache = &cache,
      .q = DenseHeads<const float>(queries_.data(), queries, table.q_heads(), table.shape().k_width),
      .lambda = {.data = lambdas_.data(), .token_stride = table.heads(), .head_stride = 1}};
  AddKeyMass(Weighed(rule_), table, votes, mass_);
  for (std::vector<float>& mass : mass_) mass = Pooled(mass);
  if (cache.tokens() > rule_.keys) Drop(table, cache, rule_.keys);
  queries_ = lambdas_ = {};
}

void KeptTokens::Drop(const DecodeHeads& table, KvCache& cache, int64_t kept) {
  const int64_t first = cache.rules().first, last = cache.rules().last;
  std::vector<std::vector<int64_t>> of_k(static_cast<size_t>(table.shape().k_heads)),
      of_v(static_cast<size_t>(table.shape().v_heads));
  for (size_t g = 0; g < table.groups().size(); ++g) {
    const int64_t sinks = std::max(kSinks, first);
    const int64_t newest = std::max(last, rule_.DropsOnce() ? std::min(kVotes, kept / 2) : kept / 2);
    const std::vector<int64_t> places = rule_.policy == KeepPolicy::kWindow
                                            ? HeaviestKeys(mass_[g], kept, sinks, kept - sinks)
                                            : HeaviestKeys(mass_[g], kept, first, newest);
    for (size_t i = 0; i < places.size(); ++i) mass_[g][i] = mass_[g][static_cast<size_t>(places[i])];
    for (const DecodeHeads::Row& row : table.groups()[g].rows) of_k[static_cast<size_t>(row.k)] = places;
    for (const DecodeHeads::Product& product : table.groups()[g].products)
      of_v[static_cast<size_t>(product.v)] = places;
  }
  dropped_ += cache.tokens() - kept;
  cache.Keep(of_k, of_v);
  for (std::vector<float>& mass : mass_) mass.resize(static_cast<size_t>(kept));
}

SequenceCache::SequenceCache(const ModelConfig& config, const CachePlan& plan)
    : skip_(plan.policy.skip), held_(plan.held), rotary_(config.rotary) {
  if (!config.causal)
    Fail("cache {}: got a model with is_causal false in config.json, expected one whose tokens do not see later ones",
         Name(plan));
  if (config.row_weights != RowWeights::kSoftmax)
    Fail("cache {}: got softpick, expected softmax, as over caches nothing else is computed", Name(plan));
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
    if (const auto [scans, channels, history] = ScansOf(config, layer); scans > 0)
      scans_[layer].assign(static_cast<size_t>(scans), ScanState(history, channels * config.scan_states));
    if (!owns_.back()) continue;
    if (keep.Drops() && config.Window(layer) > 0)
      Fail("cache {}: layer {} sees a window of {} keys, expected one that sees all; try without keep=", Name(plan),
           layer, config.Window(layer));
    if (keep.Drops() && config.CachesLatents(layer))
      Fail("cache {}: layer {} has a latent for all heads, expected their keys; try without keep=", Name(plan), layer);
    const CacheRules rules = plan.OfLayer(layer);
    const bool turned = rules.keys == KeptKeys::kBeforeRotary;
    const auto rotary = turned ? KeyRotaryOf(config, layer, "cache " + Name(plan)) : nullptr;
    layers_.push_back({KvCache(CacheShapeOf(config, layer), rules, rotary), KeptTokens(keep, rules)});
  }
}

void SequenceCache::Update(int layer, const DecodeHeads& heads, const DecodeSequence& s) {
  OneLayer& one = layers_.at(static_cast<size_t>(slots_.at(static_cast<size_t>(layer))));
  if (held_ != nullptr) CountHeld(one.cache, s.q.tokens, *held_);
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

size_t SequenceCache::Bytes() const {
  size_t bytes = 0;
  for (const OneLayer& layer : layers_) bytes += layer.cache.Bytes();
  for (const auto& [layer, scans] : scans_)
    for (const ScanState& scan : scans) bytes += scan.Bytes();
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
