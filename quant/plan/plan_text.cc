// SPDX-License-Identifier: Apache-2.0
// The canonical text of rules and plans, and its hash; the parser is in plan.cc.
#include "quant/base/formatted.h"
#include "quant/file/sha256.h"
#include "quant/plan/plan.h"

namespace tare {
namespace {

void AppendItems(std::string& items, const IndexRanges& ranges, char letter) {
  for (const auto& [first, last] : ranges) {
    items += Formatted("{}{}{}", items.empty() ? "" : ",", letter, first);
    if (last > first) items += Formatted("-{}", last);
  }
}

std::string TextOf(const Selector& selector) {
  std::string items;
  AppendItems(items, selector.layers, 'l');
  AppendItems(items, selector.heads, 'h');
  AppendItems(items, selector.maps, 'm');
  AppendItems(items, selector.experts, 'e');
  return items.empty() ? items : Formatted("[{}]", items);
}

}  // namespace

std::string TextOf(Format format, Granularity granularity) {
  const std::string name = Name(format), base = Name(WithRange(format, CodeRange::kOwn));
  const std::string shared = HasCodes(format) && Info(format).block == 0 ? "/" + Name(granularity) : "";
  return Formatted("{}{}{}", base, shared, name.substr(base.size()));
}

std::string TextOf(const RuleOptions& options) {
  std::string text;
  if (options.smooth) text += "+smooth";
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
  if (options.prerotary) text += "+prerotary";
  if (options.unnormalized) text += "+unnormalized";
  return text;
}

std::string TextOf(const Rule& rule) {
  return Formatted("{}{}={}{}", rule.name, TextOf(rule.selector), TextOf(rule.format, rule.granularity),
                   TextOf(rule.options));
}

std::string Plan::canonical() const {
  std::string text;
  for (const Rule& rule : rules_) {
    if (!text.empty()) text += ',';
    text += rule.text;
  }
  return text.empty() ? "f32" : text;
}

std::string Plan::hash() const {
  const std::string text = canonical();
  return Sha256Hex(std::as_bytes(std::span(text))).substr(0, 16);
}

}  // namespace tare
