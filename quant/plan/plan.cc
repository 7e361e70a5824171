// SPDX-License-Identifier: Apache-2.0
// A recursive-descent parser of the grammar in plan.h, and the canonical form.
#include "quant/plan/plan.h"

#include "quant/base/message.h"
#include "quant/plan/presets.h"

namespace tare {
namespace {

constexpr size_t kMaxText = size_t{1} << 20;  // levels of 16 values for keys and values of 126 layers take 32 KB
constexpr int kMaxIndex = 65535;

bool HasWord(std::string_view list, std::string_view word) {
  return Formatted(" {} ", list).find(Formatted(" {} ", word)) != std::string::npos;
}

// A choice of words separated by blanks, for messages.
std::string OneOf(std::string_view list) { return (list.contains(' ') ? "one of " : "") + std::string(list); }

std::string OneOf(std::span<const Granularity::Kind> kinds) {
  const std::string admitted = Listed(kinds, " ", Spelling);
  return OneOf(admitted) + (admitted.contains("<N>") ? Formatted(" (N from 1 to {})", Granularity::kMaxN) : "");
}

// Where a word has a sign of another notation, the plan's.
std::string_view SignInPlaceOf(std::string_view word) {
  const size_t at = word.find_first_of(";:");
  if (at == word.npos) return "";
  if (word[at] == ';') return "; ',' separates rules";
  return ExpandSites(word.substr(0, at)).empty() ? "" : "; '=' follows a site";
}

std::string Printable(std::string_view bytes) {
  std::string text(bytes);
  for (char& c : text) {
    if (c < ' ' || c > '~') c = c == '\n' || c == '\t' || c == '\r' ? ' ' : '?';
  }
  return text;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Plan Parse();

 private:
  Rule ParseRule();
  Selector ParseSelector(const SiteClass& site_class);
  IndexRange ParseRange(size_t at, std::string_view word);
  std::optional<Format> FormatOf(size_t at, std::string_view word) const;
  Format ParseRuleFormat(const SiteClass& site_class);
  Granularity ParseRuleGranularity(const SiteClass& site_class);
  bool TakeRange(const SiteClass& site_class, Format& format);
  void ParseOption(const SiteClass& site_class, RuleOptions& options);
  void RefuseBothOrders(std::span<const Rule> rules, size_t at) const;

  // Next token's place, blanks skipped; text_.size() at the end.
  size_t Place() {
    pos_ = std::min(text_.find_first_not_of(" \t\r\n", pos_), text_.size());
    return pos_;
  }
  bool Take(char mark) {
    if (Place() == text_.size() || text_[pos_] != mark) return false;
    ++pos_;
    return true;
  }
  void Require(char mark, std::string_view expected) {
    if (!Take(mark)) Refuse(pos_, expected);
  }
  std::string_view Word() {
    const size_t begin = Place();
    pos_ = EndOfWord(begin);
    return text_.substr(begin, pos_ - begin);
  }
  // A list of values goes on to its parenthesis.
  size_t EndOfWord(size_t begin) const {
    const bool listed = text_.substr(begin).starts_with(kGridMark);
    const size_t end = listed ? text_.find(')', begin) : text_.find_first_of(" \t\r\n,[]=/+", begin);
    return end == text_.npos ? text_.size() : end + (listed ? 1 : 0);
  }
  [[noreturn]] void Refuse(size_t at, std::string_view expected) const;
  [[noreturn]] void RefuseAt(size_t at, std::string_view what) const;

  std::string_view text_;
  size_t pos_ = 0;
};

// The message, and the text around the place with a caret under it.
void Parser::RefuseAt(size_t at, std::string_view what) const {
  constexpr size_t kBefore = 60, kShown = 110;
  const size_t begin = at > kBefore ? at - kBefore : 0;
  const std::string shown = Printable(text_.substr(begin, kShown));
  FailUsage("plan, column {}: {}\n  {}\n  {}^", at + 1, what, shown, std::string(at - begin, ' '));
}

void Parser::Refuse(size_t at, std::string_view expected) const {
  constexpr size_t kShown = 32;
  if (at == text_.size()) RefuseAt(at, Formatted("got the end, expected {}", expected));
  const std::string_view word = text_.substr(at, std::max(EndOfWord(at) - at, size_t{1}));
  RefuseAt(at, Formatted("got '{}', expected {}{}", Printable(word.substr(0, kShown)), expected, SignInPlaceOf(word)));
}

IndexRange Parser::ParseRange(size_t at, std::string_view word) {
  const size_t dash = word.find('-', 1);
  const std::string_view first = word.substr(1, dash == word.npos ? dash : dash - 1);
  const std::string_view last = dash == word.npos ? first : word.substr(dash + 1);
  const IndexRange bounds = word[0] == 'm' ? IndexRange{1, 2} : IndexRange{0, kMaxIndex};
  const IndexRange range{ParseNumber<int>(first).value_or(-1), ParseNumber<int>(last).value_or(-1)};
  if (range.first > range.last || !bounds.Contains(range.first) || !bounds.Contains(range.last))
    Refuse(at, Formatted("{0} with a number or a range, {1} to {2}: {0}{1} or {0}{1}-{2}", word[0], bounds.first,
                         bounds.last));
  return range;
}

Selector Parser::ParseSelector(const SiteClass& site_class) {
  Selector selector;
  const size_t bracket = Place();
  if (!Take('[')) return selector;
  if (site_class.dimensions.empty())
    RefuseAt(bracket, "got a selector, but this site has no layers, heads, maps or experts");
  do {
    const size_t at = Place();
    const std::string_view word = Word();
    if (word.empty() || site_class.dimensions.find(word[0]) == word.npos)
      Refuse(at, Formatted("an item that begins with one of {} (l layers, h heads, m maps, e experts)",
                           site_class.dimensions));
    const auto dimension = std::ranges::find(kDimensions, word[0], [](const auto& entry) { return entry.first; });
    (selector.*dimension->second).push_back(ParseRange(at, word));
  } while (Take(','));
  Require(']', "',' or ']'");
  return selector;
}

std::optional<Format> Parser::FormatOf(size_t at, std::string_view word) const {
  try {
    return ParseFormat(word);
  } catch (const Error& error) {
    RefuseAt(at, error.what());
  }
}

// The list omits names with a colon, except those of the word's own format.
Format Parser::ParseRuleFormat(const SiteClass& site_class) {
  const size_t at = Place();
  const std::string_view word = Word(), stem = word.substr(0, word.find(':'));
  const std::optional<Format> format = FormatOf(at, word);
  if (format && site_class.Takes(*format)) return *format;
  std::vector<std::string> names, admitted;
  for (const Format& spelled : SpelledFormats()) {
    if (!site_class.Takes(spelled)) continue;
    const std::string& name = names.emplace_back(Name(spelled));
    const size_t colon = name.find(':');
    if (colon == name.npos || (name.substr(0, colon) == stem && name.rfind(':') == colon)) admitted.push_back(name);
  }
  const std::string* const nearest = format ? nullptr : NearestOf(word, names);
  Refuse(at, OneOf(Listed(admitted, " ")) + (nearest == nullptr ? "" : "; the nearest is " + *nearest));
}

Granularity Parser::ParseRuleGranularity(const SiteClass& site_class) {
  const size_t at = Place();
  const std::optional<Granularity> granularity = ParseGranularity(Word());
  if (!granularity || !std::ranges::contains(site_class.granularities, granularity->kind))
    Refuse(at, OneOf(site_class.granularities));
  if (ScalesOfTokens(granularity->kind) > 1 && granularity->n % 8 != 0)
    Refuse(at, "a multiple of 8 tokens: tokens32.by8, tokens64.by4x2");
  return *granularity;
}

// A number without a sign or an exponent, from least to most.
std::optional<double> PlainNumber(std::string_view number, double least, double most) {
  const double value = ParseNumber<double>(number).value_or(-1);
  if (number.find_first_not_of("0123456789.") != number.npos || value < least || value > most) return std::nullopt;
  return value;
}

// Splits a word into letters and a number: p99.9 has one, others do not.
void Parser::ParseOption(const SiteClass& site_class, RuleOptions& options) {
  const size_t at = Place();
  const std::string_view word = Word();
  const size_t digits = std::min(word.find_first_of("0123456789."), word.size());
  const std::string_view name = word.substr(0, digits);
  const std::string_view number = word.substr(digits);
  if (site_class.options.empty()) Refuse(at, "no option: this site has none");
  if (name.empty() || !HasWord(site_class.options, name)) {
    const auto numbered = [&](const RuleOption& option) {
      return !option.numbered.empty() && HasWord(site_class.options, option.name);
    };
    const std::string numbers = Listed(kRuleOptions | std::views::filter(numbered), ", ", &RuleOption::numbered);
    Refuse(at, OneOf(site_class.options) + (numbers.empty() ? "" : Formatted(" (with a number: {})", numbers)));
  }
  const RuleOptions before = options;
  if (name == "p") {
    options.percentile = PlainNumber(number, 1.0, 100.0);
    if (!options.percentile || before.percentile) Refuse(at, "one percentile from 1 to 100: p99.9");
  } else if (name == "outliers") {
    options.outliers = PlainNumber(number, 0.01, 50.0);
    if (!options.outliers || before.outliers) Refuse(at, "one percentage from 0.01 to 50: outliers1");
  } else if (name == "top") {
    options.top = PlainNumber(number, 1.0, kMaxIndex);
    if (!options.top || before.top) Refuse(at, Formatted("one value from 1 to {}: top256", kMaxIndex));
  } else if (const auto step = std::ranges::find(kSoftmaxSteps, name, [](const auto& s) { return s.first; });
             step != std::end(kSoftmaxSteps)) {
    const auto half = std::ranges::find(kHalfWords, number, [](const auto& named) { return named.second; });
    if (half == std::end(kHalfWords) || before.softmax.*step->second)
      Refuse(at, Formatted("{0} once, as {0}.f16, {0}.bf16, {0}.f16rz or {0}.bf16rz", name));
    options.softmax.*step->second = half->first;
  } else if (name == "keep") {
    options.keep = ParseNumber<int>(number).value_or(0);
    if (options.keep < 1 || options.keep > kMaxIndex || before.keep != 0)
      Refuse(at, Formatted("one number of keys from 1 to {}: keep4", kMaxIndex));
  } else if (name == "smooth" && !number.empty() && HasWord(site_class.options, "smooth<N>")) {
    options.smooth = MeanOver::kEach;
    options.smooth_each = ParseNumber<int>(number).value_or(0);
    if (options.smooth_each < 2 || options.smooth_each > kMaxIndex || before.smooth)
      Refuse(at, Formatted("one smooth, or with a number of queries from 2 to {}: smooth128", kMaxIndex));
  } else if (name == "hadamard") {
    if (before.hadamard) Refuse(at, "each option once");
    options.hadamard = RotatedRuns{number.empty() ? 0 : ParseNumber<int>(number).value_or(-1)};
    if (!number.empty() && (options.hadamard->channels < 2 || options.hadamard->channels > kMaxIndex))
      Refuse(at, Formatted("hadamard, or with the channels of a run from 2 to {}: hadamard64", kMaxIndex));
  } else {
    if (!number.empty()) Refuse(at, Formatted("{} without a number", name));
    for (const RuleOption& option : kRuleOptions) {
      if (option.name == name && option.flag != nullptr) options.*option.flag = true;
    }
    if (name.starts_with("smooth")) options.smooth = name == "smooth" ? MeanOver::kFirst : MeanOver::kAll;
    if (options == before) Refuse(at, "each option once");
    if (before.smooth && options.smooth != before.smooth) Refuse(at, "one of smooth, smooth<N> and smoothall");
  }
  if (options.mse && options.percentile) Refuse(at, "mse or a percentile, not both: each chooses where to clip");
}

// Applies "+zero" and the like to a rule's format; false where the word is no range that the site may have.
bool Parser::TakeRange(const SiteClass& site_class, Format& format) {
  const size_t at = Place();
  const std::string_view word = Word();
  const std::optional<CodeRange> range = ParseCodeRange(word);
  if (!range || !HasWord(site_class.options, word)) {
    pos_ = at;
    return false;
  }
  if (format.range != CodeRange::kOwn) Refuse(at, "one of full, zero, min and mean at most");
  if (!TakesRange(format, *range))
    RefuseAt(at, Formatted("got '{}' with {}, expected {} with it", word, Name(format),
                           *range == CodeRange::kMean ? "normal4 to normal1 or a grid(...)"
                                                      : "int8, int6, int4, int3 or int2"));
  format.range = *range;
  return true;
}

Rule Parser::ParseRule() {
  Rule rule;
  const size_t at = Place();
  rule.name = Word();
  const std::span<const Site> sites = ExpandSites(rule.name);
  rule.sites.assign(sites.begin(), sites.end());
  if (rule.sites.empty()) {
    std::vector<std::string> names;
    const bool whole = at + rule.name.size() == text_.size() && text_.find_first_of(",=") == text_.npos;
    for (const PlanPreset& preset : kPlanPresets) {
      if (whole) names.emplace_back(preset.name);
    }
    names.insert(names.end(), {"weights", "linear_in"});
    for (const SiteInfo& info : kSites) names.emplace_back(info.name);
    if (const PlanPreset* const preset = FindPreset(rule.name); preset != nullptr && !whole)
      Refuse(at, Formatted("a site: a preset stands alone; try its rules, {}", preset->rules));
    std::vector<std::string> known = names;
    if (whole) std::ranges::transform(SpelledFormats(), std::back_inserter(known), [](Format f) { return Name(f); });
    if (const std::string* near = NearestOf(rule.name, known))
      Refuse(at, Formatted("{}; the nearest is {}{}", whole ? "a preset or a rule SITE=FORMAT" : "a site",
                           FindPreset(*near) == nullptr && ParseFormat(*near) ? "SITE=" : "", *near));
    Refuse(at, OneOf(Listed(names, " ")));
  }
  const SiteClass& site_class = ClassOf(rule.sites.front());
  rule.selector = ParseSelector(site_class);
  Require('=', "'='");
  rule.format = ParseRuleFormat(site_class);
  if (const int block = Info(rule.format).block; block > 0) {
    rule.granularity = site_class.InnerBlock(block);
    if (Take('/')) {
      const size_t slash = pos_ - 1;
      const Granularity of_row{Granularity::Kind::kRow};
      const bool takes_rows =
          rule.format.scale == ScaleType::kTwoLevel && std::ranges::contains(site_class.granularities, of_row.kind);
      if (!takes_rows || ParseGranularity(Word()) != of_row)
        RefuseAt(slash, Formatted("got a granularity, but {} has blocks of {}{}", Name(rule.format), block,
                                  takes_rows ? "; expected row, or none" : ""));
      rule.granularity = of_row;
    }
  } else if (HasCodes(rule.format)) {
    constexpr Granularity::Kind kUsual[] = {Granularity::Kind::kToken, Granularity::Kind::kRow,
                                            Granularity::Kind::kChannel, Granularity::Kind::kTensor};
    Require('/', Formatted("'/' and {}; try {}={}/{}", OneOf(site_class.granularities), rule.name, Name(rule.format),
                           Name({*std::ranges::find_first_of(kUsual, site_class.granularities)})));
    rule.granularity = ParseRuleGranularity(site_class);
  }
  const bool f32 = rule.format == Format::kF32, takes_options = !f32 || !site_class.of_f32.empty();
  while (takes_options && Take('+')) {
    const size_t option = Place();
    const std::string_view word = text_.substr(option, EndOfWord(option) - option);
    if (f32 && !HasWord(site_class.of_f32, word.substr(0, word.find_first_of("0123456789."))))
      Refuse(option, OneOf(site_class.of_f32) + ", as f32 rounds nothing");
    if (TakeRange(site_class, rule.format)) continue;
    ParseOption(site_class, rule.options);
    if (Info(rule.format).block > 0 && rule.options.HasClip())
      RefuseAt(option, Formatted("got '{}', but the scales of {} follow from its blocks",
                                 text_.substr(option, pos_ - option), Name(rule.format)));
  }
  return rule;
}

bool Overlap(const IndexRanges& a, const IndexRanges& b) {
  const auto meet = [](const IndexRange& x, const IndexRange& y) { return x.first <= y.last && y.first <= x.last; };
  return a.empty() || b.empty() || std::ranges::any_of(a, [&](const IndexRange& x) {
           return std::ranges::any_of(b, [&](const IndexRange& y) { return meet(x, y); });
         });
}

// Refuses the last rule where it and one before it name the same heads in both orders.
void Parser::RefuseBothOrders(std::span<const Rule> rules, size_t at) const {
  const Rule& rule = rules.back();
  const Site site = rule.sites.front();
  if (rule.format == Format::kF32 || (site != Site::kProbs && site != Site::kDifference)) return;
  const Site other = site == Site::kProbs ? Site::kDifference : Site::kProbs;
  for (const Rule& one : rules) {
    if (one.sites.front() == other && one.format != Format::kF32 &&
        Overlap(one.selector.layers, rule.selector.layers) && Overlap(one.selector.heads, rule.selector.heads)) {
      RefuseAt(at,
               Formatted("'{}' and '{}' name the same heads; expected probs (late order) or difference (early order), "
                         "not both; try other layers for one of them",
                         one.text, rule.text));
    }
  }
}

Plan Parser::Parse() {
  Plan plan;
  if (text_.size() > kMaxText) FailUsage("plan: got {} bytes, expected at most {}", text_.size(), kMaxText);
  if (Place() == text_.size()) return plan;
  if (Word() == "f32" && Place() == text_.size()) return plan;
  pos_ = 0;
  do {
    const size_t at = Place();
    plan.Append(ParseRule());
    RefuseBothOrders(plan.rules(), at);
  } while (Take(','));
  const bool f32_last = plan.rules().back().format == Format::kF32;
  if (Place() != text_.size()) Refuse(pos_, f32_last ? "',' or the end" : "'+', ',' or the end");
  return plan;
}

}  // namespace

Plan Plan::Parse(std::string_view text) {
  const PlanPreset* const preset = FindPreset(Trimmed(text));
  return Parser(preset != nullptr ? preset->rules : text).Parse();
}

}  // namespace tare
