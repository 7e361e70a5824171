// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/probes.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <ranges>
#include <unordered_map>

#include "experiments/table/table.h"
#include "quant/base/message.h"

namespace tare {
namespace {

bool IsWordByte(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
         static_cast<unsigned char>(c) > 127;
}

// An item as words: of the context of each ending, and of each ending.
struct ItemWords {
  explicit ItemWords(const ChoiceItem& item) {
    for (const std::string& context : item.contexts) contexts.emplace_back(context);
    for (const std::string& ending : item.endings) endings.emplace_back(ending);
  }
  const TextWords& Context(size_t ending) const { return contexts[contexts.size() == 1 ? 0 : ending]; }

  std::vector<TextWords> contexts, endings;
};

using Scores = std::vector<double>;  // [endings], the larger the likelier

double ShareWithin(const TextWords& words, const TextWords& context) {
  if (words.all().empty()) return 0;
  const auto known = std::ranges::count_if(words.all(), [&](std::string_view word) { return context.Has(word); });
  return static_cast<double>(known) / static_cast<double>(words.all().size());
}

// Endings are looked for word by word: at most seconds, where both repeat one word.
void CheckWork(const ChoiceItem& item, size_t number) {
  constexpr double kMost = 1e10;
  double bytes = 0;
  for (size_t e = 0; e < item.endings.size(); ++e)
    bytes += 1.0 * item.endings[e].size() * item.contexts[item.contexts.size() == 1 ? 0 : e].size();
  if (bytes > kMost)
    Fail("probe: item {}: got {:.1e} bytes of context times bytes of ending, expected at most {:.0e}", number, bytes,
         kMost);
}

// Unmentioned endings come after all others.
double FirstMention(const TextWords& ending, const TextWords& context) {
  const Mentions mentions = context.Find(ending);
  return -static_cast<double>(mentions.count > 0 ? mentions.first : context.all().size());
}

double LastMention(const TextWords& ending, const TextWords& context) {
  const Mentions mentions = context.Find(ending);
  return mentions.count > 0 ? static_cast<double>(mentions.last) : -1.0;
}

double MostFrequent(const TextWords& ending, const TextWords& context) {
  return static_cast<double>(context.Find(ending).count);
}

template <double (*kScore)(const TextWords& ending, const TextWords& context)>
Scores ScoreEach(const ChoiceItem&, const ItemWords& words) {
  Scores scores;
  for (size_t e = 0; e < words.endings.size(); ++e) scores.push_back(kScore(words.endings[e], words.Context(e)));
  return scores;
}

Scores Longest(const ChoiceItem& item, const ItemWords&) {
  return item.endings | std::views::transform(std::ranges::size) | std::ranges::to<Scores>();
}

// The places in which the others have the same byte, one by one.
Scores Closest(const ChoiceItem& item, const ItemWords&) {
  std::unordered_map<size_t, double> having;  // endings that have this byte in this place
  const auto key = [](const std::string& text, size_t i) { return i << 8 | static_cast<unsigned char>(text[i]); };
  for (const std::string& one : item.endings) {
    for (size_t i = 0; i < one.size(); ++i) ++having[key(one, i)];
  }
  Scores scores;
  for (const std::string& one : item.endings) {
    double equal = -static_cast<double>(one.size());  // with itself
    for (size_t i = 0; i < one.size(); ++i) equal += having[key(one, i)];
    scores.push_back(equal);
  }
  return scores;
}

struct Guess {
  const char* name;
  Scores (*scores)(const ChoiceItem& item, const ItemWords& words);
};
constexpr Guess kGuesses[] = {{"bag of words", ScoreEach<ShareWithin>},
                              {"first mention", ScoreEach<FirstMention>},
                              {"last mention", ScoreEach<LastMention>},
                              {"most frequent", ScoreEach<MostFrequent>},
                              {"longest", Longest},
                              {"closest", Closest}};

const Columns<Probe>& ProbeColumns() {
  static const Columns<Probe> columns{
      {{.name = "title", .title = "guess", .side = Side::kLeft, .files = Files::kNone}, &Probe::Title},
      {{"guess"}, &Probe::guess},
      {{"choice"}, [](const Probe& probe) { return probe.choice.empty() ? Json() : Json(probe.choice); }},
      {Number("score", "score", "{:.3f}", 7), &Probe::score},
      {Number("low", "from", "{:.3f}", 7), [](const Probe& probe) { return probe.interval.low; }},
      {Number("high", "to", "{:.3f}", 7), [](const Probe& probe) { return probe.interval.high; }},
      {Number("p", "p", "{:.3f}", 7), &Probe::p}};
  return columns;
}

}  // namespace

TextWords::TextWords(std::string_view text) {
  bool within = false;
  for (const char c : text) {
    if (!within && IsWordByte(c)) words_.emplace_back();
    within = IsWordByte(c);
    if (within) words_.back() += 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  sorted_ = words_;
  std::ranges::sort(sorted_);
}

bool TextWords::Has(std::string_view word) const { return std::ranges::binary_search(sorted_, word); }

Mentions TextWords::Find(const TextWords& phrase) const {
  Mentions mentions;
  const std::vector<std::string>& wanted = phrase.words_;
  if (wanted.empty() || !std::ranges::all_of(wanted, [&](const std::string& word) { return Has(word); }))
    return mentions;
  for (size_t at = 0; at + wanted.size() <= words_.size(); ++at) {
    if (!std::equal(wanted.begin(), wanted.end(), words_.begin() + static_cast<ptrdiff_t>(at))) continue;
    if (mentions.count++ == 0) mentions.first = at;
    mentions.last = at;
  }
  return mentions;
}

std::string Probe::Title() const {
  constexpr size_t kShown = 16;  // bytes
  return choice.empty() || choice.size() > kShown ? guess : guess + " (" + choice + ")";
}

size_t CountSamples(const std::vector<Json>& records) {
  return BySample(records, std::vector(records.size(), 1.0)).sums.size();
}

Probe Measured(const char* guess, const std::vector<Json>& records, const std::vector<double>& scores) {
  const WindowLosses samples = BySample(records, scores);
  return {.guess = guess,
          .choice = {},
          .score = std::reduce(samples.sums.begin(), samples.sums.end()) / static_cast<double>(scores.size()),
          .interval = ClusteredInterval(samples.sums, samples.counts)};
}

void Probes::Add(const ChoiceItem& item) {
  CheckWork(item, asked_.size() + 1);
  const ItemWords words(item);
  Asked asked{.label = static_cast<size_t>(item.label), .endings = item.endings, .outcomes = {}};
  const double chance = asked.Chance();
  for (const Guess& guess : kGuesses) {
    const Scores scores = guess.scores(item, words);
    const double best = std::ranges::max(scores), share = 1 / static_cast<double>(std::ranges::count(scores, best));
    asked.outcomes.push_back({scores[asked.label] == best ? share : 0.0, share * chance - chance * chance});
  }
  asked_.push_back(std::move(asked));
  records_.push_back({{"item", item.keys}});
}

template <typename OutcomeOf>
Probe Probes::Scored(const char* guess, OutcomeOf outcome) const {
  std::vector<double> scores, above;  // chance
  double variance = 0;
  for (const Asked& asked : asked_) {
    const Outcome at = outcome(asked);
    scores.push_back(at.score);
    above.push_back(at.score - asked.Chance());
    variance += at.variance;
  }
  Probe probe = Measured(guess, records_, scores);
  const std::vector<double> sums = BySample(records_, above).sums;
  const double sum = std::reduce(sums.begin(), sums.end());
  const double squares = std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0);
  // Sums of thirds are not exactly 0; an error of this size is no difference.
  const double error = std::sqrt(std::max(squares, variance)), least = 1e-9 * static_cast<double>(asked_.size());
  probe.z = std::abs(sum) <= least ? 0 : sum / error;
  probe.p = 2 * NormalBelow(-std::abs(probe.z));
  return probe;
}

// The text that is chosen each time is the one that is right most often above chance.
Probe Probes::Constant(const char* guess, TextsOf texts_of) const {
  std::map<std::string, double> above;  // chance
  for (const Asked& asked : asked_) {
    const std::vector<std::string> texts = texts_of(asked);
    for (size_t e = 0; e < texts.size(); ++e) above[texts[e]] += (e == asked.label) - asked.Chance();
  }
  const std::string best = std::ranges::max_element(above, {}, [](const auto& text) { return text.second; })->first;
  Probe probe = Scored(guess, [&](const Asked& asked) -> Outcome {
    const std::vector<std::string> texts = texts_of(asked);
    const double chance = asked.Chance();
    if (!std::ranges::contains(texts, best)) return {chance, 0};
    return {texts[asked.label] == best ? 1.0 : 0.0, chance * (1 - chance)};
  });
  probe.choice = best;
  probe.p = std::min(1.0, *probe.p * static_cast<double>(above.size()));
  return probe;
}

ProbeReport Probes::Report() const {
  TARE_CHECK(!asked_.empty());
  ProbeReport report{.items = asked_.size(), .samples = CountSamples(records_), .chance = {}, .probes = {}};
  const auto places = [](const Asked& asked) {
    std::vector<std::string> numbers;
    for (size_t e = 1; e <= asked.endings.size(); ++e) numbers.push_back(std::to_string(e));
    return numbers;
  };
  report.chance =
      std::ranges::fold_left(asked_ | std::views::transform(&Asked::Chance), 0.0, std::plus()) / std::ssize(asked_);
  report.probes = {Constant("constant place", places),
                   Constant("constant ending", [](const Asked& asked) { return asked.endings; })};
  for (size_t g = 0; g < std::size(kGuesses); ++g)
    report.probes.push_back(Scored(kGuesses[g].name, [g](const Asked& asked) { return asked.outcomes[g]; }));
  std::vector<double> p;
  for (const Probe& probe : report.probes) p.push_back(*probe.p);
  const std::vector<double> corrected = Holm(p);
  for (size_t i = 0; i < p.size(); ++i) report.probes[i].p = corrected[i];
  return report;
}

ProbeReport ProbeItems(const std::filesystem::path& file) {
  bool targets = false;
  ForEachLine(file, 1, TakeFrom::kStart, [&](const JsonLine& line) {
    targets = HasFields(ParseObject(line.text, line.where, "the fields of an item"), {"prompt", "targets"});
  });
  if (targets) return ProbeTargets(file);
  Probes probes;
  ForEachLine(file, 0, TakeFrom::kStart,
              [&](const JsonLine& line) { probes.Add(ParseChoiceItem(line.text, line.where)); });
  return probes.Report();
}

Json ProbeJson(const ProbeReport& report) {
  return {{"schema", "tare.probes/1"},
          {"items", report.items},
          {"samples", report.samples},
          {"chance", AsJson(report.chance)},
          {"probes", TableJson(TableOf(ProbeColumns(), report.probes))}};
}

std::string ProbeText(const ProbeReport& report) {
  const std::string head =
      Formatted("What guesses score, {} of {}", Counted(static_cast<int64_t>(report.items), "item"),
                Counted(static_cast<int64_t>(report.samples), "sample"));
  const std::string table = TableText(TableOf(ProbeColumns(), report.probes), 2);
  if (!report.chance) return head + "\n" + table;
  const auto differs = [](const Probe& probe) { return *probe.p < kLevel; };
  const std::string away = Listed(report.probes | std::views::filter(differs), ", ", &Probe::guess);
  return Formatted("{}; chance is {:.3f}\n{}{}", head, *report.chance, table,
                   away.empty() ? "no guess differs from chance\n"
                                : "not at chance: " + away +
                                      "\nunless items ask for just that, only an accuracy above it shows reading\n");
}

}  // namespace tare
