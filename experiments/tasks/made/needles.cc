// SPDX-License-Identifier: Apache-2.0
// Cities, families of similar numbers, sentences of a haystack, NeedleMaker, templates, MakeNeedles.
#include "experiments/tasks/made/makers.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kFamily = 4;                  // numbers that resemble each other
constexpr size_t kNumbers = 9000;              // four digits, the first not 0
constexpr size_t kMostNumbers = kNumbers / 2;  // of a haystack, so that one that is new is soon drawn

constexpr std::string_view kWrongEndings[] = {"others", "changed", "swapped"};

constexpr char kCities[] =
    "London Paris Berlin Madrid Rome Vienna Lisbon Dublin Athens Oslo Stockholm Helsinki Copenhagen Warsaw Prague "
    "Budapest Brussels Amsterdam Zurich Geneva Milan Venice Naples Florence Turin Genoa Seville Valencia Porto Lyon "
    "Marseille Bordeaux Hamburg Munich Cologne Dresden Leipzig Bremen Hanover Krakow Riga Vilnius Tallinn Sofia "
    "Bucharest Belgrade Zagreb Sarajevo Skopje Tirana Edinburgh Glasgow Cardiff Belfast York Oxford Cambridge Leeds "
    "Bristol Norwich Exeter Dover Moscow Kiev Minsk Odessa Istanbul Ankara Cairo Tunis Algiers Rabat Tripoli Nairobi "
    "Lagos Accra Dakar Durban Delhi Mumbai Calcutta Madras Lahore Karachi Kabul Tehran Baghdad Damascus Beirut "
    "Jerusalem Amman Riyadh Doha Dubai Tokyo Osaka Kyoto Nagoya Seoul Peking Shanghai Canton Taipei Manila Hanoi "
    "Bangkok Singapore Jakarta Sydney Melbourne Perth Brisbane Auckland Wellington Boston Chicago Denver Dallas "
    "Houston Austin Seattle Portland Phoenix Atlanta Miami";

std::vector<std::string> Cities() {
  std::istringstream stream(kCities);
  return {std::istream_iterator<std::string>(stream), {}};
}

// Four numbers that differ in the same digit.
std::vector<std::string> ChangedFamily(Draws& draws) {
  const std::string number = std::to_string(1000 + draws.Below(kNumbers));
  const size_t place = draws.Below(number.size()), least = place == 0 ? 1 : 0;
  std::vector<std::string> family;
  for (const size_t digit : draws.Sample(10 - least, kFamily)) {
    family.push_back(number);
    family.back()[place] = static_cast<char>('0' + least + digit);
  }
  return family;
}

// A number, with one pair of its digits swapped, with the other pair, and with both; some may be equal or begin with 0.
std::vector<std::string> SwappedFamily(Draws& draws) {
  const std::string number = std::to_string(1000 + draws.Below(kNumbers));
  const size_t with_first = 1 + draws.Below(3);  // the pair of digit 0
  std::vector<size_t> others{1, 2, 3};
  std::erase(others, with_first);
  std::vector<std::string> family(kFamily, number);
  for (const size_t i : {1u, 3u}) std::swap(family[i][0], family[i][with_first]);
  for (const size_t i : {2u, 3u}) std::swap(family[i][others[0]], family[i][others[1]]);
  return family;
}

bool AreNew(const std::vector<std::string>& numbers, const std::set<std::string>& used) {
  return std::set<std::string>(numbers.begin(), numbers.end()).size() == numbers.size() &&
         std::ranges::none_of(numbers, [&](const auto& number) { return number[0] == '0' || used.contains(number); });
}

// The sentences of a haystack: sentence i V + v is that of name i and its value v. Names are grouped by those that are
// asked for at once; question r, counted from the last, asks for group r.
struct Sentences {
  std::vector<std::string> names;
  std::vector<std::string> numbers;  // [sentences]
  std::vector<double> places;        // [sentences] the share of the words before it
  std::vector<size_t> order;         // of the sentences in the text
};

// Names R + 3 r .. have the numbers that resemble that of question r.
size_t Sibling(const NeedleQuestion& question, size_t asked, size_t i) {
  return i == 0 ? asked : question.questions + (kFamily - 1) * asked + i - 1;
}

std::vector<std::string> DrawNumbers(const NeedleQuestion& question, Draws& draws) {
  std::vector<std::string> numbers(question.needles * question.values);
  std::set<std::string> used;
  const size_t families = question.wrong == WrongEndings::kOthers ? 0 : question.questions;
  for (size_t asked = 0; asked < families; ++asked) {
    std::vector<std::string> family;
    do {
      family = question.wrong == WrongEndings::kChanged ? ChangedFamily(draws) : SwappedFamily(draws);
    } while (!AreNew(family, used));
    for (size_t i = 0; i < kFamily; ++i) numbers[Sibling(question, asked, i)] = family[i];
    used.insert(family.begin(), family.end());
  }
  for (std::string& number : numbers) {
    while (number.empty()) {
      const std::string drawn = std::to_string(1000 + draws.Below(kNumbers));
      if (used.insert(drawn).second) number = drawn;
    }
  }
  return numbers;
}

std::vector<HiddenText> HiddenOf(const NeedleQuestion& question, const Sentences& sentences) {
  std::vector<HiddenText> texts;
  for (const size_t i : sentences.order)
    texts.push_back({sentences.places[i],
                     Replaced(Replaced(question.templates.needle, "{name}", sentences.names[i / question.values]),
                              "{number}", sentences.numbers[i])});
  return texts;
}

class NeedleMaker {
 public:
  NeedleMaker(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer)
      : question_(question),
        haystack_(haystack),
        tokenizer_(tokenizer),
        all_names_(question.templates.names.empty() ? Cities() : question.templates.names),
        draws_(question.grid.seed),
        depths_(question.grid.depths, question.needles * question.values),
        writer_(question.grid.answers, question.grid.seed) {
    if (question_.templates.question.empty())
      question_.templates.question = question.values * question.names > 1
                                         ? "\n What are the magic numbers of {name}? They are"
                                         : "\n What is the magic number of {name}? It is";
    Check();
  }

  // One for each question of a haystack, in the order in which they are asked.
  std::vector<Json> Items(size_t sample, int64_t length, size_t turn) {
    const Sentences sentences = Draw(turn);
    std::vector<std::vector<std::string>> wrong;  // of each question, the last one's first
    for (size_t asked = 0; asked < question_.questions; ++asked) wrong.push_back(WrongOf(sentences, asked));
    const std::vector<std::string> endings = MadeItem{.answer = AnswerTo(sentences, 0), .wrong = wrong[0]}.Endings();
    const std::vector<HiddenText> texts = HiddenOf(question_, sentences);
    std::string hidden;
    Filled(haystack_, length, endings, tokenizer_, draws_, "needles", [&](Haystack::Words words) {
      hidden = WithHidden(words, texts);
      return hidden + Questions(sentences, 0);
    });
    std::vector<Json> items;
    for (size_t asked = question_.questions; asked-- > 0;)
      items.push_back(writer_.Write({.context = hidden + Questions(sentences, asked),
                                     .answer = AnswerTo(sentences, asked),
                                     .wrong = wrong[asked],
                                     .keys = {{"depth", sentences.places[asked * question_.names * question_.values]},
                                              {"length", length},
                                              {"needles", question_.needles},
                                              {"questions", question_.questions},
                                              {"query", question_.questions - asked},
                                              {"values", question_.values},
                                              {"names", question_.names},
                                              {"wrong", kWrongEndings[static_cast<size_t>(question_.wrong)]},
                                              {"sample", sample}},
                                     .stop = {"\n", "."},
                                     .listed = NumbersOf(sentences, asked)}));
    return items;
  }

 private:
  size_t Groups() const { return question_.needles / question_.names; }

  void Check() const {
    const NeedleQuestion& q = question_;
    if (q.needles > all_names_.size())
      Fail("needles: got {}, expected at most {}, the number of names", q.needles, all_names_.size());
    if (q.needles * q.values > kMostNumbers)
      Fail("values: got {} of {} needles, expected at most {} numbers in all", q.values, q.needles, kMostNumbers);
    // The wrong endings are of needles that no question asks for.
    const size_t spare = q.grid.answers == AnswerForm::kChoices ? 1 : 0, most = Groups() - std::min(Groups(), spare);
    if (q.questions > most)
      Fail("questions: got {}, expected at most {} of {} needles, {} asked for at once{}", q.questions, most, q.needles,
           q.names, spare > 0 ? ": the others' numbers are wrong endings; try more needles, or targets" : "");
    if (q.wrong == WrongEndings::kOthers) return;
    if (q.values * q.names > 1)
      Fail("wrong endings: got {} of several numbers, expected others", kWrongEndings[static_cast<size_t>(q.wrong)]);
    if (q.needles < kFamily * q.questions)
      Fail("needles: got {}, expected at least {}, whose numbers are the wrong endings", q.needles,
           kFamily * q.questions);
  }

  Sentences Draw(size_t turn) {
    Sentences sentences;
    for (const size_t i : draws_.Sample(all_names_.size(), question_.needles)) sentences.names.push_back(all_names_[i]);
    sentences.numbers = DrawNumbers(question_, draws_);
    sentences.places = depths_.At(turn, draws_);
    // In any order where they stand at the same place.
    sentences.order = draws_.Sample(sentences.numbers.size(), sentences.numbers.size());
    std::ranges::stable_sort(sentences.order, {}, [&](size_t i) { return sentences.places[i]; });
    return sentences;
  }

  std::vector<std::string> NumbersOf(const Sentences& sentences, size_t group) const {
    std::vector<std::string> numbers;
    for (size_t name = group * question_.names; name < (group + 1) * question_.names; ++name) {
      for (const size_t i : sentences.order) {
        if (i / question_.values == name) numbers.push_back(sentences.numbers[i]);
      }
    }
    return numbers;
  }

  std::string AnswerTo(const Sentences& sentences, size_t group) const {
    return Listed(NumbersOf(sentences, group), ", ", {}, " and ");
  }

  std::vector<std::string> WrongOf(const Sentences& sentences, size_t asked) {
    std::vector<std::string> wrong;
    if (question_.wrong != WrongEndings::kOthers) {
      for (size_t i = 1; i < kFamily; ++i) wrong.push_back(sentences.numbers[Sibling(question_, asked, i)]);
      return wrong;
    }
    std::vector<size_t> groups;  // not answered yet
    for (size_t group = 0; group < Groups(); ++group) {
      if (group < asked || group >= question_.questions) groups.push_back(group);
    }
    for (const size_t i : draws_.Sample(groups.size(), Groups() - question_.questions))
      wrong.push_back(AnswerTo(sentences, groups[i]));
    return wrong;
  }

  // The questions down to question `asked`, all but the last answered.
  std::string Questions(const Sentences& sentences, size_t asked) const {
    std::string text;
    for (size_t r = question_.questions; r-- > asked;) {
      const auto first = sentences.names.begin() + static_cast<ptrdiff_t>(r * question_.names);
      const std::vector<std::string> names(first, first + static_cast<ptrdiff_t>(question_.names));
      text += Replaced(question_.templates.question, "{name}", Listed(names, ", ", {}, " and "));
      if (r > asked) text += " " + AnswerTo(sentences, r);
    }
    return text;
  }

  NeedleQuestion question_;
  const Haystack& haystack_;
  const Tokenizer& tokenizer_;
  std::vector<std::string> all_names_;
  Draws draws_;
  DepthDealer depths_;
  ItemWriter writer_;
};

std::string TemplateField(const nlohmann::json& json, const std::string& where, const char* key,
                          std::initializer_list<const char*> fields, const std::string& otherwise) {
  if (!json.contains(key)) return otherwise;
  if (!json[key].is_string()) Fail("{}: \"{}\": got {}, expected a string", where, key, json[key].dump());
  std::string text = json[key].get<std::string>();
  for (const char* field : fields) {
    if (!text.contains(field)) Fail("{}: \"{}\": got '{}', expected {} in it", where, key, text, field);
  }
  return text;
}

}  // namespace

NeedleTemplates LoadNeedleTemplates(const std::filesystem::path& file) {
  const std::string where = file.string();
  const nlohmann::json json = ReadJson(file);
  if (!json.is_object())
    Fail("{}: got {}, expected an object with \"needle\", \"question\" or \"names\"", where, json.type_name());
  for (const auto& [key, value] : json.items()) {
    if (key != "needle" && key != "question" && key != "names")
      Fail("{}: got \"{}\", expected \"needle\", \"question\" or \"names\"", where, key);
  }
  NeedleTemplates templates;
  templates.needle = TemplateField(json, where, "needle", {"{name}", "{number}"}, templates.needle);
  templates.question = TemplateField(json, where, "question", {"{name}"}, templates.question);
  if (!json.contains("names")) return templates;
  const nlohmann::json& names = json["names"];
  const auto is_name = [](const nlohmann::json& name) { return name.is_string() && !name.get<std::string>().empty(); };
  if (!names.is_array() || names.empty() || !std::ranges::all_of(names, is_name))
    Fail("{}: \"names\": got {}, expected a list of strings", where, names.dump());
  templates.names = names.get<std::vector<std::string>>();
  return templates;
}

std::vector<Json> MakeNeedles(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer) {
  NeedleMaker maker(question, haystack, tokenizer);
  return ForGrid(question.grid,
                 [&](size_t sample, int64_t length, size_t turn) { return maker.Items(sample, length, turn); });
}

}  // namespace tare
