// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/needles.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "quant/base/error.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

constexpr size_t kNeedleEndings = 4;  // at least
constexpr size_t kNumbers = 10000;    // four digits, the first not 0

constexpr std::string_view kWrongEndings[] = {"others", "changed", "swapped"};

constexpr char kCities[] =
    "London Paris Berlin Madrid Rome Vienna Lisbon Dublin Athens Oslo Stockholm Helsinki Copenhagen Warsaw Prague "
    "Budapest "
    "Brussels Amsterdam Zurich Geneva Milan Venice Naples Florence Turin Genoa Seville Valencia Porto Lyon Marseille "
    "Bordeaux Hamburg Munich Cologne Dresden Leipzig Bremen Hanover Krakow Riga Vilnius Tallinn Sofia Bucharest "
    "Belgrade "
    "Zagreb Sarajevo Skopje Tirana Edinburgh Glasgow Cardiff Belfast York Oxford Cambridge Leeds Bristol Norwich "
    "Exeter "
    "Dover Moscow Kiev Minsk Odessa Istanbul Ankara Cairo Tunis Algiers Rabat Tripoli Nairobi Lagos Accra Dakar Durban "
    "Delhi Mumbai Calcutta Madras Lahore Karachi Kabul Tehran Baghdad Damascus Beirut Jerusalem Amman Riyadh Doha "
    "Dubai "
    "Tokyo Osaka Kyoto Nagoya Seoul Peking Shanghai Canton Taipei Manila Hanoi Bangkok Singapore Jakarta Sydney "
    "Melbourne "
    "Perth Brisbane Auckland Wellington Boston Chicago Denver Dallas Houston Austin Seattle Portland Phoenix Atlanta "
    "Miami";

std::string With(std::string text, std::string_view field, const std::string& value) {
  for (size_t at = text.find(field); at != text.npos; at = text.find(field, at + value.size()))
    text.replace(at, field.size(), value);
  return text;
}

std::vector<std::string> Cities() {
  std::istringstream stream(kCities);
  return {std::istream_iterator<std::string>(stream), {}};
}

// All four-digit numbers that one change makes from a four-digit number.
std::vector<std::string> ChangesOf(const std::string& number, WrongEndings wrong) {
  std::vector<std::string> changes;
  const auto add = [&](const std::string& changed) {
    if (changed != number && changed[0] != '0' && !std::ranges::contains(changes, changed)) changes.push_back(changed);
  };
  for (size_t i = 0; i < number.size(); ++i) {
    std::string changed = number;
    if (wrong == WrongEndings::kSwapped) {
      for (size_t j = i + 1; j < number.size(); ++j) {
        changed = number;
        std::swap(changed[i], changed[j]);
        add(changed);
      }
    } else {
      for (char digit = '0'; digit <= '9'; ++digit) {
        changed[i] = digit;
        add(changed);
      }
    }
  }
  return changes;
}

// Needles 0 .. N - 1, the queried ones first (the last query's needle being first of all), and extra numbers that are
// not in the text.
struct Drawn {
  std::vector<std::string> names, numbers;
  std::vector<std::vector<std::string>> endings;  // of each question, the last one's first
};

Drawn DrawNeedles(const NeedleQuestion& question, const std::vector<std::string>& names, Draws& draws) {
  Drawn drawn;
  for (const size_t i : draws.Sample(names.size(), question.needles)) drawn.names.push_back(names[i]);
  for (const size_t i : draws.Sample(kNumbers - 1000, std::max(question.needles, kNeedleEndings)))
    drawn.numbers.push_back(std::to_string(1000 + i));
  drawn.endings.assign(question.questions, drawn.numbers);
  if (question.wrong == WrongEndings::kOthers) return drawn;
  for (size_t asked = 0; asked < question.questions; ++asked) {
    const std::vector<std::string> changes = ChangesOf(drawn.numbers[asked], question.wrong);
    if (changes.size() < kNeedleEndings - 1) return DrawNeedles(question, names, draws);  // 7777 has nothing to swap
    drawn.endings[asked] = {drawn.numbers[asked]};
    for (const size_t i : draws.Sample(changes.size(), kNeedleEndings - 1)) drawn.endings[asked].push_back(changes[i]);
  }
  return drawn;
}

std::string NeedleText(const NeedleQuestion& question, const Drawn& drawn, size_t i) {
  return With(With(question.templates.needle, "{name}", drawn.names[i]), "{number}", drawn.numbers[i]);
}

// The questions down to that for needle `asked`, all but the last answered.
std::string Questions(const NeedleQuestion& question, const Drawn& drawn, size_t asked) {
  std::string text;
  for (size_t i = question.questions; i-- > asked;) {
    text += With(question.templates.question, "{name}", drawn.names[i]);
    if (i > asked) text += " " + drawn.numbers[i];
  }
  return text;
}

// places: for each needle, the share of the words before it.
std::string Hidden(Haystack::Words words, const std::vector<std::string>& needles, const std::vector<double>& places) {
  std::vector<std::pair<size_t, size_t>> cuts;  // words before it, needle
  for (size_t i = 0; i < needles.size(); ++i)
    cuts.emplace_back(std::lround(places[i] * static_cast<double>(words.size())), i);
  std::ranges::sort(cuts);
  std::vector<std::string_view> all;
  size_t last = 0;
  for (const auto& [at, i] : cuts) {
    all.insert(all.end(), words.begin() + static_cast<ptrdiff_t>(last), words.begin() + static_cast<ptrdiff_t>(at));
    all.push_back(needles[i]);
    last = at;
  }
  all.insert(all.end(), words.begin() + static_cast<ptrdiff_t>(last), words.end());
  return Joined(all);
}

class NeedleMaker {
 public:
  NeedleMaker(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer)
      : question_(question),
        haystack_(haystack),
        tokenizer_(tokenizer),
        names_(question.templates.names.empty() ? Cities() : question.templates.names),
        draws_(question.seed) {
    if (question_.needles > names_.size())
      Fail("needles: got {}, expected at most {}, the number of names", question_.needles, names_.size());
    if (question_.questions > question_.needles)
      Fail("questions: got {}, expected at most {}, the number of needles", question_.questions, question_.needles);
  }

  // One for each question of a haystack, in the order in which they are asked.
  std::vector<Json> Items(size_t sample, int64_t length, double depth) {
    Drawn drawn = DrawNeedles(question_, names_, draws_);
    const std::vector<double> places = Places(depth);
    std::vector<std::string> needles;
    for (size_t i = 0; i < drawn.names.size(); ++i) needles.push_back(NeedleText(question_, drawn, i));
    for (std::vector<std::string>& endings : drawn.endings) draws_.Shuffle(endings);
    std::string hidden;
    Filled(haystack_, length, drawn.endings[0], tokenizer_, draws_, "needles", [&](Haystack::Words words) {
      hidden = Hidden(words, needles, places);
      return hidden + Questions(question_, drawn, 0);
    });
    std::vector<Json> items;
    for (size_t asked = question_.questions; asked-- > 0;) {
      const std::vector<std::string>& endings = drawn.endings[asked];
      items.push_back({{"ctx", hidden + Questions(question_, drawn, asked)},
                       {"endings", endings},
                       {"label", std::ranges::find(endings, drawn.numbers[asked]) - endings.begin()},
                       {"depth", places[asked]},
                       {"length", length},
                       {"needles", question_.needles},
                       {"questions", question_.questions},
                       {"query", question_.questions - asked},
                       {"wrong", kWrongEndings[static_cast<size_t>(question_.wrong)]},
                       {"sample", sample}});
    }
    return items;
  }

 private:
  // Depths for the queried needles, in turn from this one on, so that over all haystacks each depth is used equally
  // often; other needles are anywhere.
  std::vector<double> Places(double depth) {
    const std::vector<double>& depths = question_.depths;
    const auto first = static_cast<size_t>(std::ranges::find(depths, depth) - depths.begin());
    std::vector<double> places;
    for (size_t i = 0; i < question_.needles; ++i)
      places.push_back(i < question_.questions ? depths[(first + i) % depths.size()]
                                               : static_cast<double>(draws_.Below(1001)) / 1000);
    return places;
  }

  const NeedleQuestion& question_;
  const Haystack& haystack_;
  const Tokenizer& tokenizer_;
  std::vector<std::string> names_;
  Draws draws_;
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

WrongEndings ParseWrongEndings(const std::string& name) {
  const auto at = std::ranges::find(kWrongEndings, name);
  if (at != std::end(kWrongEndings)) return static_cast<WrongEndings>(at - kWrongEndings);
  Fail("wrong endings: got '{}', expected others, changed or swapped", name);
}

std::vector<Json> MakeNeedles(const NeedleQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer) {
  for (const double depth : question.depths) {
    if (!(depth >= 0 && depth <= 1)) Fail("depths: got {}, expected 0 to 1", depth);
  }
  NeedleMaker maker(question, haystack, tokenizer);
  return ForGrid(question.samples, question.lengths, question.depths,
                 [&](size_t sample, int64_t length, double depth) { return maker.Items(sample, length, depth); });
}

}  // namespace tare
