// SPDX-License-Identifier: Apache-2.0
// What guesses score on items whose answers a model writes, {"prompt", "targets"}: exact matches with any target, or
// with "score": "all" with the only one. Nothing is chosen from, so there is no chance to compare with:
//
//   constant target   the most frequent target of all
//   first number      of the prompt; last number; most frequent number (of equals, each scores its share)
//   in the prompt     no guess but a ceiling: how often all words of a target (of "all": of every one) stand in the
//                     prompt, to be copied
#include <algorithm>
#include <map>
#include <ranges>

#include "experiments/tasks/probes.h"
#include "experiments/text/utf8.h"

namespace tare {
namespace {

struct TargetItem {
  std::vector<std::string> targets;  // in order
  bool all = false;                  // of the targets are asked for, instead of any
  std::vector<double> scores;        // of kNumberGuesses, in order
};

std::vector<std::string> NumbersIn(const TextWords& words) {
  const auto is_number = [](const std::string& word) { return word.find_first_not_of("0123456789") == word.npos; };
  return words.all() | std::views::filter(is_number) | std::ranges::to<std::vector>();
}

double IsTarget(const TargetItem& item, const std::string& guess) {
  return std::ranges::binary_search(item.targets, guess) && (!item.all || item.targets.size() == 1) ? 1 : 0;
}

template <auto kWhich>
double OneNumber(const TargetItem& item, const TextWords& prompt) {
  const std::vector<std::string> numbers = NumbersIn(prompt);
  return numbers.empty() ? 0 : IsTarget(item, kWhich(numbers));
}

double MostFrequentNumber(const TargetItem& item, const TextWords& prompt) {
  std::map<std::string, int64_t> counts;
  for (const std::string& number : NumbersIn(prompt)) ++counts[number];
  int64_t most = 0, right = 0, equal = 0;
  for (const auto& [number, count] : counts) most = std::max(most, count);
  for (const auto& [number, count] : counts) {
    if (count < most) continue;
    ++equal;
    right += IsTarget(item, number) > 0;
  }
  return equal == 0 ? 0 : static_cast<double>(right) / static_cast<double>(equal);
}

double InThePrompt(const TargetItem& item, const TextWords& prompt) {
  const auto stands = [&](const std::string& target) {
    return std::ranges::all_of(TextWords(target).all(), [&](const std::string& word) { return prompt.Has(word); });
  };
  return item.all ? std::ranges::all_of(item.targets, stands) : std::ranges::any_of(item.targets, stands);
}

struct NumberGuess {
  const char* name;
  double (*score)(const TargetItem& item, const TextWords& prompt);
};
constexpr NumberGuess kNumberGuesses[] = {{"first number", OneNumber<[](const auto& all) { return all.front(); }>},
                                          {"last number", OneNumber<[](const auto& all) { return all.back(); }>},
                                          {"most frequent number", MostFrequentNumber},
                                          {"in the prompt", InThePrompt}};

TargetItem TargetsOf(const PromptItem& prompted) {
  TargetItem item;
  for (const std::string& target : prompted.targets) item.targets.emplace_back(Strip(target));
  std::ranges::sort(item.targets);
  item.all = prompted.score == AnswerScore::kAll;
  const TextWords prompt(prompted.prompt);
  for (const NumberGuess& guess : kNumberGuesses) item.scores.push_back(guess.score(item, prompt));
  return item;
}

}  // namespace

ProbeReport ProbeTargets(const std::filesystem::path& file) {
  std::vector<TargetItem> items;
  std::vector<Json> records;
  std::map<std::string, size_t> counts;
  ForEachLine(file, 0, TakeFrom::kStart, [&](const JsonLine& line) {
    const PromptItem prompted = ParsePrompt(line.text, line.where);
    records.push_back({{"item", prompted.keys}});
    for (const std::string& target : items.emplace_back(TargetsOf(prompted)).targets) ++counts[target];
  });
  ProbeReport report{.items = items.size(), .samples = CountSamples(records), .chance = {}, .probes = {}};
  const auto add = [&](const char* guess, const auto& score) -> Probe& {
    const auto scores = items | std::views::transform(score) | std::ranges::to<std::vector<double>>();
    return report.probes.emplace_back(Measured(guess, records, scores));
  };
  const std::string best =
      std::ranges::max_element(counts, {}, [](const auto& target) { return target.second; })->first;
  add("constant target", [&](const TargetItem& item) { return IsTarget(item, best); }).choice = best;
  for (size_t g = 0; g < std::size(kNumberGuesses); ++g)
    add(kNumberGuesses[g].name, [g](const TargetItem& item) { return item.scores[g]; });
  return report;
}

}  // namespace tare
