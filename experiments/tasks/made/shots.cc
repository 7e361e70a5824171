// SPDX-License-Identifier: Apache-2.0
// Labels dealt as letters, made-up examples, their order, the items of a sample, LoadExamples, and MakeShots.
#include "experiments/tasks/made/makers.h"

#include <algorithm>

#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kOrders[] = {"random", "alternating"}, kLetters = "ABCDEFGH";
constexpr size_t kWords = 500;      // the most common, that made-up examples are of
constexpr size_t kKeyWords = 2;     // of a class
constexpr size_t kOtherWords = 40;  // of a sample

// A sample: examples by number (the i-th of class i % classes), and its question.
struct Sample {
  std::vector<Example> examples;
  std::string text;
  size_t label = 0;
};

// Letters as labels, by class. In a round, which is a sample for each letter, every letter is the answer's once and, as
// the others are at the same distances from it on a shuffled circle, offered as often as any other.
class LetterDealer {
 public:
  explicit LetterDealer(size_t classes) : classes_(classes) {}

  std::vector<std::string> Next(size_t answer, Draws& draws) {
    if (turn_ == 0) {
      circle_ = draws.Sample(kLetters.size(), kLetters.size());
      distances_ = draws.Sample(kLetters.size() - 1, classes_ - 1);
    }
    std::vector<std::string> labels;
    for (const size_t distance : distances_) labels.push_back(Letter(turn_ + 1 + distance));
    draws.Shuffle(labels);
    labels.insert(labels.begin() + static_cast<ptrdiff_t>(answer), Letter(turn_));
    turn_ = (turn_ + 1) % kLetters.size();
    return labels;
  }

 private:
  std::string Letter(size_t place) const { return {kLetters[circle_[place % kLetters.size()]]}; }

  size_t classes_, turn_ = 0;
  std::vector<size_t> circle_, distances_;
};

// The key word of the last line is among the first examples, one of each class.
Sample MakeUp(const ShotQuestion& question, const std::vector<std::string>& labels, size_t answer,
              const std::vector<std::string>& words, Draws& draws) {
  const size_t classes = question.classes, keys = kKeyWords * classes;
  const std::vector<size_t> pool = draws.Sample(words.size(), keys + kOtherWords);
  const auto line = [&](size_t key) {
    std::string other = words[pool[keys + draws.Below(kOtherWords)]], own = words[pool[key]];
    if (draws.Below(2) == 0) std::swap(own, other);
    return own + " " + other;
  };
  Sample sample{.label = answer};
  std::vector<size_t> first;
  for (size_t i = 0; i < std::ranges::max(question.shots); ++i) {
    const size_t label = i % classes, key = kKeyWords * label + draws.Below(kKeyWords);
    if (i < classes) first.push_back(key);
    sample.examples.push_back({line(key), labels[label]});
  }
  sample.text = line(first[answer]);
  return sample;
}

// Numbers of examples; example i belongs to class i % classes.
std::vector<size_t> Ordered(ShotOrder order, size_t shots, size_t classes, Draws& draws) {
  std::vector<size_t> all = AllBelow(shots);
  draws.Shuffle(all);
  if (order == ShotOrder::kRandom) return all;
  std::vector<std::vector<size_t>> of_class(classes);
  for (const size_t i : all) of_class[i % classes].push_back(i);
  std::vector<size_t> turns = AllBelow(classes), alternating;
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
              ItemWriter& writer, std::vector<Json>& items) {
  std::vector<std::string> wrong = labels;
  wrong.erase(wrong.begin() + static_cast<ptrdiff_t>(sample.label));
  for (const size_t shots : question.shots) {
    for (const ShotOrder order : question.orders) {
      for (size_t seed = 0; seed < question.seeds; ++seed) {
        // The order is the same in every sample.
        Draws draws(question.seed * 1'000'003 + seed);
        const std::vector<size_t> ordered = Ordered(order, shots, labels.size(), draws);
        items.push_back(writer.Write({.context = Context(question, sample, ordered),
                                      .answer = labels[sample.label],
                                      .wrong = wrong,
                                      .keys = {{"shots", shots},
                                               {"order", kOrders[static_cast<size_t>(order)]},
                                               {"seed", seed},
                                               {"classes", labels.size()},
                                               {"sample", number}}}));
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
  std::vector<Example> examples;
  ForEachLine(path, 0, TakeFrom::kStart, [&](const JsonLine& line) {
    const nlohmann::json json = ParseObject(line.text, line.where, "\"text\" and \"label\"");
    const std::string& text = StringField(json, "text", line.where);
    if (Strip(text).empty()) Fail("{}: \"text\": got nothing, expected text", line.where);
    examples.push_back({text, LabelOf(json, line.where)});
  });
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
  std::vector<std::string> common = CommonWords(words);
  common.resize(std::min(common.size(), kWords));
  if (common.size() < kKeyWords * question.classes + kOtherWords)
    Fail("shots: got a text with {} different words of four small letters or more, expected at least {}", common.size(),
         kKeyWords * question.classes + kOtherWords);
  Draws draws(question.seed);
  Dealer answers(question.classes);
  LetterDealer letters(question.classes);
  ItemWriter writer(question.answers, question.seed);
  std::vector<Json> items;
  for (size_t number = 0; number < question.samples; ++number) {
    ThrowIfStopped();
    const size_t answer = answers.Next(draws);
    const std::vector<std::string> labels = letters.Next(answer, draws);
    AddItems(question, MakeUp(question, labels, answer, common, draws), number, labels, writer, items);
  }
  return items;
}

std::vector<Json> MakeShots(const ShotQuestion& question, const std::vector<Example>& data) {
  Draws draws(question.seed);
  std::vector<Example> shuffled = data;
  draws.Shuffle(shuffled);
  std::map<std::string, std::vector<Example>> of_label;
  for (const Example& example : shuffled) of_label[example.label].push_back(example);
  const auto labels = of_label | std::views::keys | std::ranges::to<std::vector>();
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
  const auto fewest = std::ranges::min_element(of_label, {}, [](const auto& of) { return of.second.size(); });
  if (const size_t most = fewest->second.size() * labels.size(); question.samples > most)
    Fail("samples: got {}, expected at most {}: class '{}' has {} besides the shots", question.samples, most,
         fewest->first, fewest->second.size());
  Dealer answers(labels.size());
  ItemWriter writer(question.answers, question.seed);
  std::vector<Json> items;
  for (size_t number = 0; number < question.samples; ++number) {
    sample.label = answers.Next(draws);
    std::vector<Example>& left = of_label[labels[sample.label]];
    sample.text = left.back().text;
    left.pop_back();
    AddItems(question, sample, number, labels, writer, items);
  }
  return items;
}

}  // namespace tare
