// SPDX-License-Identifier: Apache-2.0
// A plan: which sites are quantized, in which format, granularity and options. Text, parsed once; others call Match.
//
//   plan     = rule {"," rule}                    the last matching rule wins; a site that no rule names stays f32
//   rule     = site [selector] "=" "f32" {"+" option}  exempts what an earlier rule named; options: sink of
//                                                      attn_logits, and those of caches
//            | site [selector] "=" format "/" granularity {"+" option}
//            | site [selector] "=" format {"+" option}     of formats with their own blocks, mxfp4, nvfp4 (no clip),
//                                                      and of bf16, which has no scale; nvfp4/row has an f32 per row
//   format   = a name of format.h | "grid(" value {" " value} ")"
//   selector = "[" item {"," item} "]"            item = l, h, m or e with a number or a range a-b: [l0-3,h2,m1]
//   option   = full | zero | min | mean                another range of codes (CodeRange), for integers of weights, k
//              and v, and mean for normal4 to normal1 and lists of k and v; at most one. It becomes part of the
//              rule's format
//            | smooth[<n>] | smoothall | hadamard[<n>] | sketch | maxshift | sink | keep<n> | outliers<percent>
//            | static | p<percent> | mse | top<value> | prerotary | unnormalized
//            | step "." half                        step = diff | exp | rescale | sum
//   half     = f16 | bf16 | f16rz | bf16rz
//
// Layers, heads and experts count from 0, maps are 1 and 2. Blanks around tokens are ignored. A selector may use only
// dimensions of the site: weights have no heads, v no maps, embed no layers. Empty text or "f32" quantizes nothing.
//
// A preset (presets.h) must stand alone.
//
// `probs` is quantized before the maps are subtracted (late order) and `difference` after (early order). A head uses
// one order, so rules for both that overlap in layers and heads are refused, unless one is f32; a later f32 rule does
// not help.
//
// A rule for cache_k or cache_v, even f32, makes the model decode over key/value caches.
#pragma once

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/base/float16.h"
#include "quant/format/format.h"
#include "quant/format/hadamard.h"
#include "quant/plan/site.h"

namespace tare {

// Closed range of indices.
struct IndexRange {
  int first = 0, last = 0;
  bool Contains(int index) const { return first <= index && index <= last; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// Ascending, with a gap between neighbours; empty means all.
using IndexRanges = std::vector<IndexRange>;
// Whether the index is selected; without an index, whether all are.
bool Selects(const IndexRanges& ranges, const std::optional<int>& index);

struct Selector {
  IndexRanges layers, heads, maps, experts;
  friend bool operator==(const Selector&, const Selector&) = default;
};
// As items begin, in canonical order.
inline constexpr std::pair<char, IndexRanges Selector::*> kDimensions[] = {
    {'l', &Selector::layers}, {'h', &Selector::heads}, {'m', &Selector::maps}, {'e', &Selector::experts}};

// Which results of the softmax's own arithmetic are rounded to 16 bits, as kernels compute it tile by tile
// (experiments/plan/simulated/softmax_steps.h). Empty: f32.
struct SoftmaxSteps {
  std::optional<HalfRounding> difference, exponential, rescale, sum;

  bool Any() const { return *this != SoftmaxSteps{}; }
  friend bool operator==(const SoftmaxSteps&, const SoftmaxSteps&) = default;
};
// As options spell them: "diff", "exp".
inline constexpr std::pair<std::string_view, std::optional<HalfRounding> SoftmaxSteps::*> kSoftmaxSteps[] = {
    {"diff", &SoftmaxSteps::difference},
    {"exp", &SoftmaxSteps::exponential},
    {"rescale", &SoftmaxSteps::rescale},
    {"sum", &SoftmaxSteps::sum}};
inline constexpr std::pair<HalfRounding, std::string_view> kHalfWords[] = {{HalfRounding::kF16, ".f16"},
                                                                           {HalfRounding::kBf16, ".bf16"},
                                                                           {HalfRounding::kF16TowardZero, ".f16rz"},
                                                                           {HalfRounding::kBf16TowardZero, ".bf16rz"}};

// Tokens whose mean is subtracted before rounding: the sequence's first (kSmoothingTokens), all of them, or each run of
// so many queries, whose mean times the unrounded keys is added to logits.
enum class MeanOver : uint8_t { kFirst, kAll, kEach };

struct RuleOptions {
  std::optional<MeanOver> smooth;       // "smooth", "smoothall": subtract a constant vector
  int smooth_each = 0;                  // "smooth128", with kEach: the queries of one mean
  std::optional<RotatedRuns> hadamard;  // "hadamard", "hadamard16": rotate channels, all or in runs
  bool sketch = false;                  // one more bit per channel: signs of what rounding left, projected
  bool max_shift = false;               // "maxshift": subtract the row's maximum
  bool sink = false;                    // an added key of logit 0 and value 0; for f32 too
  int keep = 0;                         // "keep4": the first keys stay as they are
  std::optional<double> outliers;       // "outliers1": so many percent of a group stay as they are, 0 .. 50
  bool static_scale = false;            // "static": scales frozen at calibration
  std::optional<double> percentile;     // "p99.9": clip at this percentile of |x|, 1 .. 100
  bool mse = false;                     // clip where the squared error is least; excludes a percentile
  std::optional<double> top;            // "top256": what the largest magnitude becomes, in place of the largest code
  bool prerotary = false;               // keys are rounded as they are before rotary positions
  bool unnormalized = false;            // probabilities are not divided by the sum that rounding left
  SoftmaxSteps softmax;                 // "diff.f16", "exp.bf16"

  // The rotation of rows of so many channels; null without +hadamard. Throws Error as PlanRotation does.
  const Hadamard* Rotation(int64_t channels) const;
  // Whether the scale may be another than the group's largest magnitude gives.
  bool HasClip() const { return static_scale || percentile || mse || top; }
  friend bool operator==(const RuleOptions&, const RuleOptions&) = default;
};

// An option's word, the flag that it sets unless it takes a number, how it looks with one (hadamard's may be left out),
// and what it does, for docs/reference/plans.md. The first four change a format's CodeRange.
struct RuleOption {
  std::string_view name;
  bool RuleOptions::* flag;
  std::string_view numbered, what;
};
inline constexpr auto kRuleOptions = std::to_array<RuleOption>({
    {"full", nullptr, "", "one code more, the lowest"},
    {"zero", nullptr, "", "a zero point beside each scale"},
    {"min", nullptr, "", "a minimum beside each scale"},
    {"mean", nullptr, "", "rounds about the mean of what shares the scale, and stores it"},
    {"smooth", nullptr, "", "subtracts the mean vector before rounding and adds it back"},
    {"smooth<N>", nullptr, "smooth128", "subtracts means of 128 queries, whose products with `k` are exact. Simulated"},
    {"smoothall", nullptr, "", "`smooth` by the mean of all tokens"},
    {"sketch", &RuleOptions::sketch, "", "one more bit per channel of keys. Simulated"},
    {"maxshift", &RuleOptions::max_shift, "", "rounds logits minus the largest of their row"},
    {"sink", &RuleOptions::sink, "", "adds a key with logit 0 and value 0 to every row. Simulated"},
    {"keep", nullptr, "keep4", "the first 4 keys stay unchanged and out of the scales"},
    {"hadamard", nullptr, "hadamard64", "rotates channels (in runs of 64) before rounding and back after it"},
    {"p", nullptr, "p99.9", "clips at this percentile of the absolute values"},
    {"outliers", nullptr, "outliers1", "1 % of the values stay unchanged and out of the scale. Simulated"},
    {"static", &RuleOptions::static_scale, "", "scales per tensor, head or channel, frozen at calibration"},
    {"mse", &RuleOptions::mse, "", "clips where the squared error is least"},
    {"top", nullptr, "top256", "what the magnitude that sets the scale becomes; executed for probs"},
    {"prerotary", &RuleOptions::prerotary, "", "rounds keys before rotary position embedding"},
    {"unnormalized", &RuleOptions::unnormalized, "", "leaves rows of probs with the sum after rounding"},
    {"diff", nullptr, "diff.f16", "softmax in 16 bits: logits minus their maximum. Simulated"},
    {"exp", nullptr, "exp.bf16", "likewise, exponentials"},
    {"rescale", nullptr, "rescale.f16", "likewise, factors of earlier tiles"},
    {"sum", nullptr, "sum.f16rz", "likewise, sums of a tile; here toward zero"},
});

// "+smooth+p99.9", in the order of RuleOptions.
std::string TextOf(const RuleOptions& options);
// "int4/group32+zero", as a rule has it after "=".
std::string TextOf(Format format, Granularity granularity);

struct Rule {
  std::string name;         // of a site or of a group, as written
  std::vector<Site> sites;  // the sites of the name
  Selector selector;
  Format format = Format::kF32;
  Granularity granularity;  // ignored for f32
  RuleOptions options;
  std::string text;  // the rule in canonical form

  bool Matches(const SiteKey& key) const;
  // An f32 rule without options, which changes nothing.
  bool Exempts() const { return format == Format::kF32 && options == RuleOptions{}; }
};

// f32 for all places of a site.
Rule RuleFor(Site site);

// Both sides of a rule's "=" in canonical form: "q[l0]" and "int4/token+smooth".
std::string PlaceText(const Rule& rule);
std::string LevelText(const Rule& rule);

// Splits at the commas outside brackets: "q,attn_logits[l0,m1]" has two rules. Empty for an empty text.
std::vector<std::string_view> SplitRules(std::string_view text);
// Without the blanks around it.
std::string_view Trimmed(std::string_view text);

class Plan {
 public:
  // Quantizes nothing.
  Plan() = default;
  // Throws Error: the column (bytes, from 1), what is there, what was expected, and the text with a caret.
  static Plan Parse(std::string_view text);

  // Adds rules that win over those before, in canonical form. Rules of both orders must not name the same heads.
  Plan& Append(Rule rule);
  Plan& Append(const Plan& later);
  // The rules of which this holds, in their order.
  template <typename Taken>
  Plan Select(const Taken& taken) const {
    Plan some;
    std::ranges::copy_if(rules_, std::back_inserter(some.rules_), taken);
    return some;
  }

  // The last matching rule, perhaps f32; null if none. Rules of layers, heads, maps or experts need them in the key.
  const Rule* Match(const SiteKey& key) const;
  // Whether any rule that does not exempt names the site, for some layer, head or map.
  bool Touches(Site site) const;
  // Whether any rule, exempting or not, is for a cache.
  bool NamesCaches() const;
  // Whether any rule but an f32 one has the option.
  bool HasStaticScales() const;

  std::span<const Rule> rules() const { return rules_; }
  bool empty() const { return rules_.empty(); }

  // The canonical form: no blanks, groups kept, selectors in the order l h m e with ascending numbers, options in the
  // order of RuleOptions; "f32" if empty. Parse(canonical()) is an equal plan.
  std::string canonical() const;
  // First 16 hexadecimal digits of the SHA-256 of canonical().
  std::string hash() const;

 private:
  std::vector<Rule> rules_;
};

// The text, with a grid's numbers where it names a file of them: grid(levels.txt) becomes grid(-1 -0.25 0 0.5 1),
// and later code sees only that. The text between the parentheses is a file unless its first word is a number; the
// file holds ParseGrid's text. Throws Error, naming the file, if it is missing or not a grid. Plans and lists of
// formats from the user alone pass through here: a plan stored in a file cannot name another file.
std::string WithGridFiles(std::string_view text);

}  // namespace tare
