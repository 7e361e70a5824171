// SPDX-License-Identifier: Apache-2.0
// What rules match; canonical text and hash; plans of other plans' rules; grids from files. The parser is in plan.cc.
#include <algorithm>
#include <charconv>
#include <utility>

#include "quant/base/message.h"
#include "quant/file/mapped_file.h"
#include "quant/file/sha256.h"
#include "quant/format/grid.h"
#include "quant/format/hadamard.h"
#include "quant/plan/plan.h"

namespace tare {
namespace {

// Sorts the ranges and joins those that touch.
void Join(IndexRanges& ranges) {
  std::ranges::sort(ranges, {}, &IndexRange::first);
  IndexRanges joined;
  for (const IndexRange& range : ranges) {
    if (joined.empty() || range.first > joined.back().last + 1) joined.push_back(range);
    joined.back().last = std::max(joined.back().last, range.last);
  }
  ranges = std::move(joined);
}

std::string TextOf(const Selector& selector) {
  std::string items;
  for (const auto& [letter, ranges] : kDimensions) {
    for (const auto& [first, last] : selector.*ranges) {
      items += Formatted("{}{}{}", items.empty() ? "" : ",", letter, first);
      if (last > first) items += Formatted("-{}", last);
    }
  }
  return items.empty() ? items : Formatted("[{}]", items);
}

// 256 values of any spelling.
constexpr size_t kMaxGridBytes = 65536;

bool BeginsWithANumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text = text.substr(0, text.find_first_of(" \t\r\n"));
  double value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ptr == text.data() + text.size();
}

std::string GridOfFile(const std::string& path) {
  const MappedFile file(path);
  if (file.bytes().size() > kMaxGridBytes)
    Fail("{}: got {} bytes, expected the 2 to 256 numbers of a grid", path, file.bytes().size());
  return GridName(ParseGrid(file.text(), path));
}

}  // namespace

std::string TextOf(Format format, Granularity granularity) {
  const std::string name = Name(format), base = Name(WithRange(format, CodeRange::kOwn));
  const bool is_shared = Info(format).block == 0 || granularity.kind == Granularity::Kind::kRow;
  const std::string shared = HasCodes(format) && is_shared ? "/" + Name(granularity) : "";
  return Formatted("{}{}{}", base, shared, name.substr(base.size()));
}

std::string TextOf(const RuleOptions& options) {
  std::string text;
  if (options.smooth) text += *options.smooth == MeanOver::kAll ? "+smoothall" : "+smooth";
  if (options.smooth_each > 0) text += Formatted("{}", options.smooth_each);
  if (options.hadamard) text += "+hadamard";
  if (options.hadamard && options.hadamard->channels > 0) text += Formatted("{}", options.hadamard->channels);
  if (options.sketch) text += "+sketch";
  if (options.max_shift) text += "+maxshift";
  if (options.sink) text += "+sink";
  if (options.keep > 0) text += Formatted("+keep{}", options.keep);
  if (options.outliers) text += Formatted("+outliers{}", *options.outliers);  // 0.01 .. 50: never with an exponent
  if (options.static_scale) text += "+static";
  if (options.percentile) text += Formatted("+p{}", *options.percentile);  // 1 .. 100: never with an exponent
  if (options.mse) text += "+mse";
  if (options.top) text += Formatted("+top{}", *options.top);  // 1 .. 65535: never with an exponent
  if (options.prerotary) text += "+prerotary";
  if (options.unnormalized) text += "+unnormalized";
  for (const auto& [name, step] : kSoftmaxSteps) {
    for (const auto& [half, word] : kHalfWords) {
      if (options.softmax.*step == half) text.append("+").append(name).append(word);
    }
  }
  return text;
}

std::string PlaceText(const Rule& rule) { return rule.name + TextOf(rule.selector); }

std::string LevelText(const Rule& rule) { return TextOf(rule.format, rule.granularity) + TextOf(rule.options); }

Rule RuleFor(Site site) { return {.name = std::string(Name(site)), .sites = {site}}; }

Plan& Plan::Append(Rule rule) {
  for (const auto& [letter, ranges] : kDimensions) Join(rule.selector.*ranges);
  rule.text = PlaceText(rule) + "=" + LevelText(rule);
  rules_.push_back(std::move(rule));
  return *this;
}

Plan& Plan::Append(const Plan& later) {
  rules_.insert(rules_.end(), later.rules_.begin(), later.rules_.end());
  return *this;
}

std::string Plan::canonical() const { return rules_.empty() ? "f32" : Listed(rules_, ",", &Rule::text); }

std::string Plan::hash() const { return Sha256OfText(canonical()).substr(0, 16); }

const Hadamard* RuleOptions::Rotation(int64_t channels) const {
  return hadamard ? &PlanRotation(channels, *hadamard) : nullptr;
}

bool Selects(const IndexRanges& ranges, const std::optional<int>& index) {
  return ranges.empty() ||
         (index && std::ranges::any_of(ranges, [&](const IndexRange& range) { return range.Contains(*index); }));
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::vector<std::string_view> SplitRules(std::string_view text) {
  std::vector<std::string_view> rules;
  if (text.empty()) return rules;
  size_t begin = 0;
  bool selects = false;
  for (size_t i = 0; i < text.size(); ++i) {
    selects = text[i] == '[' || (selects && text[i] != ']');
    if (text[i] != ',' || selects) continue;
    rules.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  rules.push_back(text.substr(begin));
  return rules;
}

bool Rule::Matches(const SiteKey& key) const {
  return std::ranges::contains(sites, key.site) && Selects(selector.layers, key.layer) &&
         Selects(selector.heads, key.head) && Selects(selector.maps, key.map) && Selects(selector.experts, key.expert);
}

const Rule* Plan::Match(const SiteKey& key) const {
  for (size_t i = rules_.size(); i-- > 0;) {
    if (rules_[i].Matches(key)) return &rules_[i];
  }
  return nullptr;
}

bool Plan::Touches(Site site) const {
  return std::ranges::any_of(
      rules_, [site](const Rule& rule) { return !rule.Exempts() && std::ranges::contains(rule.sites, site); });
}

bool Plan::NamesCaches() const {
  return std::ranges::any_of(rules_, [](const Rule& rule) { return IsCache(rule.sites.front()); });
}

bool Plan::HasStaticScales() const {
  return std::ranges::any_of(rules_,
                             [](const Rule& rule) { return rule.format != Format::kF32 && rule.options.static_scale; });
}

std::string WithGridFiles(std::string_view text) {
  std::string made;
  for (;;) {
    const size_t mark = text.find(kGridMark);
    const size_t end = mark == text.npos ? mark : text.find(')', mark);
    if (end == text.npos) return made.append(text);  // who parses it says what is missing
    const size_t inside = mark + kGridMark.size();
    const std::string_view named = text.substr(inside, end - inside);
    if (BeginsWithANumber(named))
      made.append(text.substr(0, end + 1));
    else
      made.append(text.substr(0, mark)).append(GridOfFile(std::string(named)));
    text.remove_prefix(end + 1);
  }
}

}  // namespace tare
