// SPDX-License-Identifier: Apache-2.0
// What a plan needs to know about a model: the layers, heads and maps of its sites, and how its weights are stored.
// ModelSitesOf (experiments/model/sites_of_model.h) makes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quant/format/format.h"
#include "quant/plan/site_key.h"

namespace tare {

struct StoredWeight {
  int64_t in = 0;                // input channels
  std::optional<Format> format;  // of codes; nothing: floating point
  int64_t group = 0;             // of codes: values of a row that share a scale
};

struct ModelSites {
  std::string family;  // for messages
  int layers = 0;
  int maps = 1;            // softmax maps of an output head; 2: there is a difference
  bool gated_ffn = true;   // a gate_proj beside up_proj
  bool tied_head = false;  // the head's weight is the embedding
  bool decodes = false;    // token by token, over caches
  // Of each site with heads, by head: 1 or 2 where only that map uses it, else nothing.
  std::map<Site, std::vector<std::optional<int>>> heads;
  std::map<SiteKey, StoredWeight> weights;  // empty: not known, only the configuration is

  // Not every model has a difference, lambda of each token, norms of queries and keys, a gate.
  bool Has(Site site) const;
  int Heads(Site site) const;
  // Every place of a site, as blocks and statistics have it.
  std::vector<SiteKey> Keys(Site site) const;
};

}  // namespace tare
