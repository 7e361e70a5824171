// SPDX-License-Identifier: Apache-2.0
// A place in a model: a site, and its layer, head and map. It is the key of resolved plans, blocks and statistics.
// Files write -1, -1 and 0 for parts that a key does not have.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "quant/base/formatted.h"
#include "quant/plan/site.h"

namespace tare {

struct SiteKey {
  Site site{};
  std::optional<int> layer;  // nothing: outside the layers
  std::optional<int> head;   // nothing: not of a head
  std::optional<int> map;    // 1 or 2; nothing: of no map, or of both
  friend auto operator<=>(const SiteKey&, const SiteKey&) = default;
};

// "layer 3, head 1, map 2, attn_logits", for messages.
inline std::string TextOf(const SiteKey& key) {
  std::string text;
  if (key.layer) text += Formatted("layer {}, ", *key.layer);
  if (key.head) text += Formatted("head {}, ", *key.head);
  if (key.map) text += Formatted("map {}, ", *key.map);
  return text + std::string(Name(key.site));
}

}  // namespace tare
