// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/shots.h"

#include <algorithm>
#include <map>
#include <ranges>

#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/base/interrupt.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

constexpr std::string_view kOrders[] = {"random", "alternating"}, kLetters = "ABCDEFGH";
constexpr size_t kWords = 500;      // the commonest, that made-up examples are of
constexpr size_t kKeyWords = 2;     // of a class
constexpr size_t kOtherWords = 40;  // of a sample

// A sample: examples by number (the i-th of class i % classes), and its question.
struct Sample {
  std::vector<Example> examples;
  std::string text;
  size_t label = 0;
};

// Words of at least four lower-case letters, the most common first.
std::vector<std::string> CommonWords(Haystack::Words words) {
  std::map<std::string_view, int64_t> counts;
  for (const std::string_view word : words) {
    if (word.size() >= 4 && std::ranges::all_of(word, [](char c) { return 'a' <= c && c <= 'z'; })) ++counts[word];
  }
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts) ranked.emplace_back(-count, word);
  std::ranges::sort(ranked);
  std::vector<std::string> common;
  for (const auto& [count, word] : ranked | std::views::take(kWords)) common.push_back(word);
  return common;
}

// The key word of the last line is among the first examples, one of each class.
Sample MakeUp(const ShotQuestion& question, const std::vector<std::string>& labels,
              const std::vector<std::string>& words, Draws& draws) {
  const size_t classes = question.classes, keys = kKeyWords * classes;
  const std::vector<size_t> pool = draws.Sample(words.size(), keys + kOtherWords);
  const auto line = [&](size_t key) {
    std::string other = words[pool[keys + draws.Below(kOtherWords)]], own = words[pool[key]];
    if (draws.Below(2) == 0) std::swap(own, other);
    return own + " " + other;
  };
  Sample sample;
  std::vector<size_t> first;
  for (size_t i = 0; i < std::ranges::max(question.shots); ++i) {
    const size_t label = i % classes, key = kKeyWords * label + draws.Below(kKeyWords);
    if (i < classes) first.push_back(key);
    sample.examples.push_back({line(key), labels[label]});
  }
  sample.label = draws.Below(classes);
  sample.text = line(first[sample.label]);
  return sample;
}

// Numbers of examples; example i belongs to class i % classes.
std::vector<size_t> Ordered(ShotOrder order, size_t shots, size_t classes, Draws& draws) {
  std::vector<size_t> all(shots);
  std::iota(all.begin(), all.end(), size_t{0});
  draws.Shuffle(all);
  if (order == ShotOrder::kRandom) return all;
  std::vector<std::vector<size_t>> of_class(classes);
  for (const size_t i : all) of_class[i % classes].push_back(i);
  std::vector<size_t> turns(classes), alternating;
  std::iota(turns.begin(), turns.end(), size_t{0});
  draws.Shuffle(turns);
  for (size_t round = 0; alternating.size() < shots; ++round) {
    for (const size_t turn : turns) {
      if (round < of_class[turn].size()) alternating.push_back(of_class[turn][round]);
    }
  }
  return alternating;
}

std::string WithFirst(std::string text, std::string_view field, const std::string& value) {
  const size_t at = text.find(field);
  return at == text.npos ? text : text.replace(at, field.size(), value);
}

std::string Context(const ShotQuestion& question, const Sample& sample, const std::vector<size_t>& order) {
  std::string context;
  for (const size_t i : order) {
    const Example& example = sample.examples[i];
    // The label first: what the text says of {label} is no field.
    context += WithFirst(WithFirst(question.line, "{label}", example.label), "{text}", example.text) + "\n ";
  }
  const std::string asked = WithFirst(question.line.substr(0, question.line.find("{label}")), "{text}", sample.text);
  return context + std::string(StripRight(asked));
}

void AddItems(const ShotQuestion& question, const Sample& sample, size_t number, const std::vector<std::string>& labels,
              std::vector<Json>& items) {
  for (const size_t shots : question.shots) {
    for (const ShotOrder order : question.orders) {
      for (size_t seed = 0; seed < question.seeds; ++seed) {
        // The same order in every sample.
        Draws draws(question.seed * 1'000'003 + seed);
        const std::vector<size_t> ordered = Ordered(order, shots, labels.size(), draws);
        items.push_back({{"ctx", Context(question, sample, ordered)},
                         {"endings", labels},
                         {"label", sample.label},
                         {"shots", shots},
                         {"order", kOrders[static_cast<size_t>(order)]},
                         {"seed", seed},
                         {"classes", labels.size()},
                         {"sample", number}});
      }
    }
  }
}

void Check(const ShotQuestion& question, size_t classes) {
  if (!question.line.contains("{text}") || question.line.find("{label}") < question.line.find("{text}") ||
      !question.line.contains("{label}"))
    Fail("line: got '{}', expected {{text}} and after it {{label}}", question.line);
  if (const size_t least = std::ranges::min(question.shots); least < classes)
    Fail("shots: got {}, expected at least {}, one of each class", least, classes);
}

std::string LabelOf(const nlohmann::json& json, const std::string& where) {
  const auto label = json.find("label");
  if (label != json.end() && label->is_number_integer()) return label->dump();
  if (label == json.end() || !label->is_string() || Strip(label->get_ref<const std::string&>()).empty())
    Fail("{}: \"label\": got {}, expected text or a whole number", where, label == json.end() ? "none" : label->dump());
  return label->get<std::string>();
}

}  // namespace

std::vector<Example> LoadExamples(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::string_view rest = file.text();
  std::vector<Example> examples;
  for (size_t line = 1; !rest.empty(); ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    const std::string where = Formatted("{}: line {}", path.string(), line);
    RequireUtf8(text, where);
    if (Strip(text).empty()) continue;
    const nlohmann::json json = ParseJson(text, where);
    if (!json.is_object() || !json.contains("text") || !json["text"].is_string() ||
        Strip(json["text"].get_ref<const std::string&>()).empty())
      Fail("{}: got {}, expected an object with \"text\" and \"label\"", where, std::string(text.substr(0, 80)));
    examples.push_back({json["text"].get<std::string>(), LabelOf(json, where)});
  }
  if (examples.empty()) Fail("{}: got no examples, expected one per line in JSON", path.string());
  return examples;
}

ShotOrder ParseShotOrder(const std::string& name) {
  const auto at = std::ranges::find(kOrders, name);
  if (at != std::end(kOrders)) return static_cast<ShotOrder>(at - kOrders);
  Fail("orders: got '{}', expected random or alternating", name);
}

std::vector<Json> MakeShots(const ShotQuestion& question, Haystack::Words words) {
  Check(question, question.classes);
  if (question.classes < 2 || question.classes > kLetters.size())
    Fail("classes: got {}, expected 2 to {}", question.classes, kLetters.size());
  const std::vector<std::string> common = CommonWords(words);
  if (common.size() < kKeyWords * question.classes + kOtherWords)
    Fail("shots: got a text with {} different words of four small letters or more, expected at least {}", common.size(),
         kKeyWords * question.classes + kOtherWords);
  Draws draws(question.seed);
  std::vector<Json> items;
  for (size_t number = 0; number < question.samples; ++number) {
    ThrowIfStopped();
    std::vector<std::string> labels;
    for (const size_t i : draws.Sample(kLetters.size(), question.classes)) labels.push_back({kLetters[i]});
    AddItems(question, MakeUp(question, labels, common, draws), number, labels, items);
  }
  return items;
}

std::vector<Json> MakeShots(const ShotQuestion& question, const std::vector<Example>& data) {
  Draws draws(question.seed);
  std::vector<Example> shuffled = data;
  draws.Shuffle(shuffled);
  std::map<std::string, std::vector<Example>> of_label;
  for (const Example& example : shuffled) of_label[example.label].push_back(example);
  std::vector<std::string> labels;
  for (const auto& [label, examples] : of_label) labels.push_back(label);
  if (labels.size() < 2) Fail("shots: got data of {} classes, expected two or more", labels.size());
  Check(question, labels.size());
  Sample sample;
  for (size_t i = 0; i < std::ranges::max(question.shots); ++i) {
    std::vector<Example>& left = of_label[labels[i % labels.size()]];
    if (left.empty())
      Fail("shots: got {} of class '{}', expected more of each class in the data; try fewer shots", i / labels.size(),
           labels[i % labels.size()]);
    sample.examples.push_back(left.back());
    left.pop_back();
  }
  std::vector<Example> asked;
  for (const auto& [label, examples] : of_label) asked.insert(asked.end(), examples.begin(), examples.end());
  if (asked.size() < question.samples)
    Fail("samples: got {}, expected at most {}: what the data has besides the shots", question.samples, asked.size());
  draws.Shuffle(asked);
  std::vector<Json> items;
  for (size_t number = 0; number < question.samples; ++number) {
    sample.text = asked[number].text;
    sample.label = static_cast<size_t>(std::ranges::find(labels, asked[number].label) - labels.begin());
    AddItems(question, sample, number, labels, items);
  }
  return items;
}

}  // namespace tare
