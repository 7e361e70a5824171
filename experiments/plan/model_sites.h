// SPDX-License-Identifier: Apache-2.0
// What a plan needs to know about a model: the layers, heads and maps of its sites, and how its weights are stored.
// ModelSitesOf (experiments/model/plan_run.h) fills it in. And where the scales of rules with +static are from: a
// statistics file, or the model itself if it was quantized with one (definitions: quant/calibrate/clipping.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention/heads.h"
#include "kernels/cache/page_layout.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/format/format.h"
#include "quant/observe/statistics_set.h"
#include "quant/plan/plan.h"
#include "quant/plan/site.h"

namespace tare {

class Hadamard;  // quant/format/hadamard.h

struct StoredWeight {
  int64_t in = 0;                      // input channels
  std::optional<Format> format;        // of codes that kernels read; empty: floating point
  int64_t group = 0;                   // with codes: values of a row that share a scale
  const Hadamard* rotation = nullptr;  // with codes: R, if they are of W R
  // Another tool's name for its storage, or empty. Rules for weights round its values again, whatever its codes.
  std::string scheme = {};
  std::optional<float> input_scale = {};  // by which that tool rounds its inputs, one for all
};

struct ModelSites {
  std::string family;  // for messages
  int layers = 0;
  int head_dim = 0;               // channels of a head of keys or values; 0: not known
  int value_dim = 0;              // of values, where they have others; 0: the same
  int maps = 1;                   // softmax maps per output head; 2: there is a difference
  bool gated_ffn = true;          // has a gate_proj beside up_proj
  bool tied_head = false;         // the head's weight is the embedding
  bool sinks = false;             // heads have learned sinks
  RowWeights row_weights{};       // but for softmax rows do not sum to 1, and change with a constant in their logits
  std::string no_prerotary = {};  // why keys cannot be taken before rotary positions; empty: they can
  int experts = 0;                // of each layer; 0: one feed-forward, without a router
  bool decodes = false;           // runs token by token, over caches
  // For each site with heads, by head: 1 or 2 if only that map uses it, else empty.
  std::map<Site, std::vector<std::optional<int>>> heads;
  // Each head's group, from 0: heads that share keys or values (kernels/decode/decode_heads.h); empty if unknown.
  std::map<Site, std::vector<int>> groups = {};
  // The layers that have a site, for sites that are not in all of them.
  std::map<Site, std::vector<int>> layers_of = {};
  std::map<int, CacheShape> latents = {};  // of layers whose caches hold one latent for all heads
  // By layer: the one whose keys and values it reads; empty: its own.
  std::vector<int> keys_layer = {};
  std::map<SiteKey, StoredWeight> weights;  // empty if only the configuration is known

  // False for sites that the model lacks: a difference, lambda per token, norms of queries and keys, a gate, a scan.
  bool Has(Site site) const;
  bool HasIn(Site site, int layer) const;
  int Heads(Site site) const;
  int Width(const SiteKey& key) const;  // channels of a head of q, k, v or their caches
  // The group of a place; empty for a place without a head.
  std::optional<int> GroupAt(const SiteKey& key) const;
  // Every place of a site, with the keys of blocks and statistics.
  std::vector<SiteKey> Keys(Site site) const;
};

// Reads a model's statistics. Throws Error, with both hashes, for other weights, or if it names another configuration.
std::shared_ptr<const StatisticsSet> ReadStatisticsOf(const std::filesystem::path& path,
                                                      const std::string& weights_sha256,
                                                      const std::string& config_sha256);

// The static clips of a rule at a place: one value, or one per channel. Throws Error if there are none.
using StaticSource = std::function<std::vector<float>(const Rule& rule, const SiteKey& key)>;

StaticSource FromStatistics(std::shared_ptr<const StatisticsSet> seen);
// The user's statistics file, or else the model's clips (tare quantize --stats), for exactly its rules; or empty.
StaticSource StaticSourceOf(const std::filesystem::path& statistics, const Checkpoint& files);

// Static clips under their names in a quantized checkpoint.
std::map<std::string, std::vector<float>> KeptClips(const std::map<SiteKey, std::vector<float>>& clips);

}  // namespace tare
