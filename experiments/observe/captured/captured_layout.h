// SPDX-License-Identifier: Apache-2.0
// The site of an array and the meaning of its axes. An array is found by its name, SITE.LAYER ("attn_logits.3"), or
// SITE outside the layers ("embed"); a JSON file may define other names per site:
//
//   {"q": {"name": "model.layers.{layer}.self_attn.q", "axes": "BTHC", "maps": "interleaved"},
//    "attn_logits": {"mask": "causal", "maps": "halves"}}
//
//   name   of the arrays, with {layer} in place of the layer's number, from 0
//   axes   one letter per dimension: B sequences, T tokens (of attn_logits, probs and difference: queries), H heads,
//          S keys, C channels; for weights O output and I input channels. Default: BTC, BHTC (q, k, v, head_out),
//          BHTS or OI; arrays with one dimension less have no B
//   mask   which keys a query sees in attn_logits, probs and difference: causal; none; lowest (all but those with
//          minus infinity, or the lowest value of the type); or the name of an array of booleans [T,S], [B,T,S] or
//          [B,1,T,S]. Default: lowest for attn_logits; for the others causal if all entries after a query's own
//          position are 0, else none
//   maps   for sites with heads: the map of differential attention that a head belongs to: interleaved (1, 2,
//          1, 2, ...) or halves (1, 1, .., 2, 2, ..). Default: none
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "experiments/arrays/array_file.h"
#include "quant/plan/site.h"

namespace tare {

enum class MapsOfHeads { kNone, kInterleaved, kHalves };

struct SiteLayout {
  std::string name;  // with {layer}, if the site has layers
  std::string axes;  // empty: as above
  std::string mask;  // empty: as above
  MapsOfHeads maps = MapsOfHeads::kNone;

  std::optional<int> MapOf(int head, int heads) const;
};

// One array of a site. strides: in values, 0 for a missing axis.
struct CapturedArray {
  ArrayInfo array;
  Site site{};
  std::optional<int> layer;
  int64_t sequences = 1, heads = 0, rows = 0, columns = 0;  // heads 0: a site without heads
  int64_t sequence_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0;
};

bool IsAttentionMap(Site site);  // attn_logits, probs, difference: their columns are keys

class CapturedLayout {
 public:
  CapturedLayout();  // names and axes as above
  // Throws Error, starting with the file's name, if the file does not follow this form.
  static CapturedLayout Load(const std::filesystem::path& path);

  const SiteLayout& Of(Site site) const { return sites_.at(site); }
  const std::string& canonical() const { return canonical_; }  // equal for equal files; empty without a file
  // Empty if no site has the name. Throws Error, starting with `where`, if the dimensions do not fit the axes.
  std::optional<CapturedArray> Find(const ArrayInfo& array, const std::string& where) const;

 private:
  std::map<Site, SiteLayout> sites_;
  std::string canonical_;
};

}  // namespace tare
