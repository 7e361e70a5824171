// SPDX-License-Identifier: Apache-2.0
// Names of formats. Which suffixes a base may have follows from its row.
#include "quant/format/format.h"

#include <iterator>
#include <ranges>

#include "quant/base/message.h"

namespace tare {
namespace {

static_assert(std::ranges::equal(kFormats, std::views::iota(size_t{0}, kFormats.size()), {},
                                 [](const FormatRow& row) { return static_cast<size_t>(row.base); }));

// Another type of scale than the table's.
struct ScaleWord {
  std::string_view word;
  ScaleType table, scale;
};
constexpr auto kScaleWords = std::to_array<ScaleWord>({
    {":ceil", ScaleType::kE8M0Floor, ScaleType::kE8M0Ceil},
    {":rceil", ScaleType::kE8M0Floor, ScaleType::kE8M0Rceil},
    {":even", ScaleType::kE8M0Floor, ScaleType::kE8M0Even},
    {":256", ScaleType::kTwoLevel, ScaleType::kTwoLevel256},
    {":4over6", ScaleType::kTwoLevel, ScaleType::kFourOverSix},
    {":t1", ScaleType::kTwoLevel, ScaleType::kTwoLevelOne},
    {":floor", ScaleType::kF32, ScaleType::kE8M0Floor},
    {":ceil", ScaleType::kF32, ScaleType::kE8M0Ceil},
    {":rceil", ScaleType::kF32, ScaleType::kE8M0Rceil},
    {":even", ScaleType::kF32, ScaleType::kE8M0Even},
});
constexpr std::pair<Ties, std::string_view> kTiesWords[] = {{Ties::kAwayFromZero, ":ties-away"},
                                                            {Ties::kTowardZero, ":ties-zero"}};
constexpr std::pair<CodeRange, std::string_view> kRangeWords[] = {
    {CodeRange::kFull, "full"}, {CodeRange::kZero, "zero"}, {CodeRange::kMin, "min"}, {CodeRange::kMean, "mean"}};

// The base, then with every suffix. Lists have no ties, and only a largest magnitude sets a scale of another type.
std::vector<Format> SpellingsOf(const FormatRow& row) {
  std::vector<Format> all;
  const bool has_scales = row.info.grid.largest > 0 && row.info.statistic == Statistic::kLargest;
  const auto add = [&](Format format) {
    all.push_back(format);
    if (!has_scales || !row.info.grid.levels.empty() || !row.info.grid.evenly.empty()) return;
    for (const auto& [ties, word] : kTiesWords) {
      format.ties = ties;
      all.push_back(format);
    }
  };
  add(row.base);
  for (const ScaleWord& word : kScaleWords) {
    if (!has_scales || word.table != row.scale || (IsTwoLevel(word.scale) && row.base != Format::kNvFp4)) continue;
    Format format = row.base;
    format.scale = word.scale;
    add(format);
  }
  return all;
}

Format ListedFormat(std::string_view name) {
  const size_t end = name.find(')');
  if (end == name.npos) Fail("grid: got no ')' after its values, expected one");
  if (end + 1 < name.size())
    Fail("grid: got '{}' after its ')', expected nothing; try it behind the granularity of a plan's rule",
         name.substr(end + 1, 32));
  return Format(Levels(ParseGrid(name.substr(kGridMark.size(), end - kGridMark.size()), "grid")));
}

using Kind = Granularity::Kind;

// A name is prefix, N where there is one, suffix.
struct KindInfo {
  Kind kind;
  std::string_view prefix;
  bool has_n;
  std::string_view suffix, spelling, meaning;
};

// In the order of the enum. Kinds of one prefix differ by their suffix.
constexpr std::array<KindInfo, 12> kKinds{{
    {Kind::kTensor, "tensor", false, "", "tensor", "the whole tensor: all that one rule selects in a layer"},
    {Kind::kHead, "head", false, "", "head", "one head"},
    {Kind::kRow, "row", false, "", "row", "one query's row"},
    {Kind::kToken, "token", false, "", "token", "one token; at sites of heads, one token of one head"},
    {Kind::kHeads, "heads", false, "", "heads", "one token of all heads that one rule selects"},
    {Kind::kTokens, "tokens", true, "", "tokens<N>", "N tokens of one head"},
    {Kind::kTokensBy8, "tokens", true, ".by8", "tokens<N>.by8", "likewise, those equal modulo 8"},
    {Kind::kTokensBy4x2, "tokens", true, ".by4x2", "tokens<N>.by4x2", "likewise, pairs equal modulo 4"},
    {Kind::kChannel, "channel", false, "", "channel", "one channel"},
    {Kind::kGroup, "group", true, "", "group<N>",
     "N neighbouring values of a row: input channels of a weight, channels of a token"},
    {Kind::kBlock, "block", true, "", "block<N>", "one query's row x N keys"},
    {Kind::kBlockChannel, "block", true, ".channel", "block<N>.channel", "N tokens x one channel"},
}};

const KindInfo& Info(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::optional<int> ParseN(std::string_view digits) {
  if (digits.empty() || digits[0] < '1' || digits[0] > '9') return std::nullopt;
  const std::optional<int> n = ParseNumber<int>(digits);
  return n && *n <= Granularity::kMaxN ? n : std::nullopt;
}

}  // namespace

std::string_view Spelling(Kind kind) { return Info(kind).spelling; }
std::string_view Meaning(Kind kind) { return Info(kind).meaning; }

int ScalesOfTokens(Kind kind) {
  if (kind == Kind::kTokens) return 1;
  return kind == Kind::kTokensBy8 ? 8 : kind == Kind::kTokensBy4x2 ? 4 : 0;
}

std::string Name(Granularity granularity) {
  const KindInfo& info = Info(granularity.kind);
  std::string name(info.prefix);
  if (info.has_n) name += std::to_string(granularity.n);
  return name.append(info.suffix);
}

std::optional<Granularity> ParseGranularity(std::string_view text) {
  for (const KindInfo& info : kKinds) {
    if (!info.has_n && text == info.prefix) return Granularity{info.kind};
    if (!info.has_n || !text.starts_with(info.prefix) || !text.ends_with(info.suffix)) continue;
    if (text.size() < info.prefix.size() + info.suffix.size()) continue;
    const std::string_view digits =
        text.substr(info.prefix.size(), text.size() - info.prefix.size() - info.suffix.size());
    if (const std::optional<int> n = ParseN(digits)) return Granularity{info.kind, *n};
  }
  return std::nullopt;
}

std::optional<StepCodes> AsStepCodes(const Format& format) {
  const FormatInfo& info = Info(format);
  if (IsInteger(format)) return StepCodes{info.bits >= 4 ? format : WithRange(Format::kInt4, format.range), 1.0f};
  if (format.base == Format::kE8P) return StepCodes{Format::kInt6, 0.25f};
  if (!HasCodes(format) || !info.grid.levels.empty()) return std::nullopt;
  for (const Format::Base integers : {Format::kInt4, Format::kInt6, Format::kInt8}) {
    if (info.grid.largest <= info.grid.Step() * static_cast<float>(Info(integers).max_code))
      return StepCodes{integers, info.grid.Step()};
  }
  return std::nullopt;
}

std::string Name(const Format& format) {
  const auto number = static_cast<size_t>(format.base);
  if (number >= kFormats.size()) return Formatted("no format ({})", number);
  const FormatRow& row = RowOf(format.base);
  std::string name = format.levels.empty() ? std::string(row.name) : GridName(format.levels.values());
  for (const ScaleWord& word : kScaleWords) {
    if (word.table == row.scale && word.scale == format.scale) name += word.word;
  }
  for (const auto& [ties, word] : kTiesWords) {
    if (ties == format.ties) name += word;
  }
  for (const auto& [range, word] : kRangeWords) {
    if (range == format.range) name.append("+").append(word);
  }
  return name;
}

std::vector<Format> SpelledFormats() {
  std::vector<Format> all;
  for (const FormatRow& row : kFormats) {
    if (row.base != Format::kListed) std::ranges::move(SpellingsOf(row), std::back_inserter(all));
  }
  std::ranges::stable_partition(all, [](const Format& format) { return format == format.base; });
  return all;
}

std::optional<Format> ParseFormat(std::string_view name) {
  if (name.starts_with(kGridMark)) return ListedFormat(name);
  const auto row = std::ranges::find(kFormats, name.substr(0, name.find(':')), &FormatRow::name);
  if (row == kFormats.end()) return std::nullopt;
  const std::vector<Format> spellings = SpellingsOf(*row);
  const auto found = std::ranges::find(spellings, name, [](const Format& format) { return Name(format); });
  return found == spellings.end() ? std::nullopt : std::optional(*found);
}

std::optional<Format> ParseMatrixFormat(std::string_view name) {
  for (const FormatRow& row : kFormats) {
    for (const auto& [range, word] : kRangeWords) {
      Format format = WithRange(row.base, range);
      if (range != CodeRange::kMean && TakesRange(row.base, range) && Name(format) == name) return format;
    }
  }
  return ParseFormat(name);
}

std::optional<CodeRange> ParseCodeRange(std::string_view word) {
  const auto found = std::ranges::find(kRangeWords, word, [](const auto& entry) { return entry.second; });
  return found == std::end(kRangeWords) ? std::nullopt : std::optional(found->first);
}

}  // namespace tare
