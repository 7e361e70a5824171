// SPDX-License-Identifier: Apache-2.0
#include "experiments/studies/search/search.h"

#include <algorithm>
#include <utility>

#include "experiments/model/attention/sequence_cache.h"
#include "experiments/model/config/family.h"
#include "experiments/model/linear/weights.h"
#include "experiments/quantize/provenance.h"
#include "experiments/quantize/round_layers.h"
#include "quant/base/message.h"
#include "quant/format/quantized_matrix.h"

namespace tare {
namespace {

// The mean over a window's queries.
double KeysSeen(std::optional<int> layer, const ModelConfig& config, int64_t window) {
  const int64_t sliding = layer ? config.Window(*layer) : 0, most = sliding == 0 ? window : std::min(sliding, window);
  return static_cast<double>(most * (most + 1) / 2 + (window - most) * most) / static_cast<double>(window);
}

double Product(Site weight, const ModelConfig& config) {
  if (IsOfExperts(weight))  // of those that a token chooses
    return double{1} * config.chosen_experts * config.hidden * config.ffn * (weight == Site::kExpertsGateUpW ? 2 : 1);
  const MatrixShape shape = ShapeOf(weight, config);
  return static_cast<double>(shape.in * shape.out);
}

auto IsOneOf(Site site) {
  return [site](auto... sites) { return ((site == sites) || ...); };
}

// For sites that are in no product.
int64_t Values(Site site, const ModelConfig& c) {
  const auto is = IsOneOf(site);
  if (is(Site::kQNorm, Site::kKNorm)) return int64_t{HeadsOf(site, c)} * c.head_dim;
  if (is(Site::kHeadOut)) return AttendedWidth(c);
  if (is(Site::kLambda)) return HeadsOf(site, c);
  if (is(Site::kAttnGate)) return int64_t{HeadsOf(site, c)} * GateWidth(c);
  if (is(Site::kScanDelta)) return c.scan_heads > 0 ? c.scan_heads : c.scan_channels;
  if (is(Site::kScanIn, Site::kScanOut, Site::kMambaGate, Site::kGmuGate)) return c.scan_channels;
  if (is(Site::kScanState)) return int64_t{c.scan_channels} * c.scan_states;
  if (is(Site::kScanB, Site::kScanC, Site::kMixer1ScanB, Site::kMixer1ScanC, Site::kMixer2ScanB, Site::kMixer2ScanC))
    return c.ScanColumns();
  if (is(Site::kMixer1ScanDelta, Site::kMixer2ScanDelta)) return c.scan_heads;
  if (is(Site::kMixer1ScanState, Site::kMixer2ScanState)) return c.PairChannels() * c.scan_states;
  if (is(Site::kMixer1ScanIn, Site::kMixer1ScanOut, Site::kMixer1Gate, Site::kMixer2ScanIn, Site::kMixer2ScanOut,
         Site::kMixer2Gate))
    return c.PairChannels();
  return c.hidden;
}

using PartPlace = std::pair<Site, std::optional<int>>;

struct MatrixInFile {
  int64_t out = 0, in = 0;
  double bits = 0;
};

// The matrices of each part: one, or one per expert.
std::map<PartPlace, std::vector<MatrixInFile>> MatricesOf(const Checkpoint& files, const ModelConfig& config,
                                                          const std::string& where) {
  std::map<PartPlace, std::vector<MatrixInFile>> stored;
  for (const auto& [name, key] : WeightSites(config)) {
    std::vector<MatrixInFile>& matrices = stored[{key.site, key.layer}];
    if (const TensorView* tensor = files.Find(name)) {
      if (tensor->shape.size() != 2)
        Fail("{}: tensor '{}': got {} dimensions, expected a matrix", where, name, tensor->shape.size());
      matrices.push_back({tensor->shape[0], tensor->shape[1], 8.0 * static_cast<double>(tensor->bytes.size())});
    } else if (const ForeignMatrix* matrix = files.FindForeign(name)) {
      matrices.push_back({matrix->out(), matrix->in(), 8.0 * static_cast<double>(matrix->bytes())});
    }
  }
  return stored;
}

double BitsOf(const MatrixInFile& matrix, const PartLevel& level) {
  if (level.plan.empty()) return matrix.bits;
  const Rule& rule = level.plan.rules().back();
  const int block = Info(rule.format).block;
  const QuantizedMatrix coded{.format = rule.format,
                              .out = matrix.out,
                              .in = matrix.in,
                              .group = block > 0 ? block : GroupOf(rule.granularity, matrix.in)};
  return 8.0 * static_cast<double>(coded.Bytes());
}

}  // namespace

double OperandsPerToken(Site site, std::optional<int> layer, const ModelConfig& config, int64_t window) {
  if (IsWeight(site)) return Product(site, config);
  if (const std::optional<Site> weight = WeightOf(site)) return Product(*weight, config);
  const double keys = KeysSeen(layer, config, window), maps = Maps(config);
  const auto output = static_cast<double>(AttendedWidth(config));
  const auto is = IsOneOf(site);
  if (is(Site::kQ, Site::kK)) return double{1} * config.heads * config.head_dim * keys;
  if (is(Site::kAttnLogits)) return config.heads * keys;
  if (is(Site::kProbs, Site::kV)) return maps * output * keys;
  if (is(Site::kDifference)) return output * keys;
  const CacheShape held = CacheShapeOf(config, layer);
  if (IsCache(site)) return keys * (is(Site::kCacheK) ? held.k_heads * held.k_width : held.v_heads * held.v_width);
  return static_cast<double>(Values(site, config));
}

StoredBits CountStoredBits(const std::filesystem::path& model, const ModelConfig& config,
                           std::vector<SearchPart>& parts) {
  const Checkpoint files = OpenSplit(model, config);
  RefuseCodes(files, model);
  const auto stored = MatricesOf(files, config, model.string());
  StoredBits bits{.weights = 0, .others = 8.0 * static_cast<double>(files.total_bytes())};
  for (SearchPart& part : parts) {
    if (!IsWeight(part.site))
      FailUsage("part {}: got a site without stored bytes, expected weights within a size; try --within", part.name);
    const auto found = stored.find({part.site, part.layer});
    if (found == stored.end() || found->second.empty())
      Fail("part {}: got no matrix of it in {}; try plans without this part", part.name, model.string());
    part.operands = 0;
    for (PartLevel& level : part.levels) level.of.cost = 0;
    for (const MatrixInFile& matrix : found->second) {
      part.operands += static_cast<double>(matrix.out) * static_cast<double>(matrix.in);
      bits.others -= matrix.bits;
      for (PartLevel& level : part.levels) level.of.cost += BitsOf(matrix, level);
    }
    bits.weights += part.operands;
  }
  return bits;
}

}  // namespace tare
