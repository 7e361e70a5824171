// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/copies.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "quant/base/error.h"

namespace tare {
namespace {

constexpr size_t kStretch = 8;  // words of it that stand again before the name
constexpr size_t kCopyEndings = 4;
constexpr int kTries = 100;  // passages, until one has a name

bool IsUpper(char c) { return 'A' <= c && c <= 'Z'; }
bool IsLower(char c) { return 'a' <= c && c <= 'z'; }

struct Place {
  size_t word = 0;
  std::string name;
};

// Names with at least a stretch's length of words before them.
std::vector<Place> NamesIn(Haystack::Words words) {
  std::vector<Place> places;
  for (size_t i = kStretch; i < words.size(); ++i) {
    if (const std::string_view name = NameIn(words[i - 1], words[i]); !name.empty())
      places.push_back({i, std::string(name)});
  }
  return places;
}

std::vector<std::string> Distinct(const std::vector<Place>& places) {
  std::vector<std::string> names;
  for (const Place& place : places) names.push_back(place.name);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

// The name nearest to a depth.
std::optional<Place> PlaceAt(double depth, const std::vector<Place>& places, size_t words) {
  if (places.empty()) return std::nullopt;
  const double wanted = depth * static_cast<double>(words);
  return std::ranges::min(places, {}, [&](const Place& p) { return std::abs(static_cast<double>(p.word) - wanted); });
}

// The passage, and the words before a place repeated.
std::string Repeated(Haystack::Words words, size_t end) {
  const size_t stretch = std::min(kStretch, end);
  return Joined(words) + "\n " + Joined(words.subspan(end - stretch, stretch));
}

class CopyMaker {
 public:
  CopyMaker(const CopyQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer)
      : haystack_(haystack), tokenizer_(tokenizer), names_(Distinct(NamesIn(haystack.words()))), draws_(question.seed) {
    if (names_.size() < kCopyEndings)
      Fail("copies: got a text with {} names, expected at least {}; try a novel", names_.size(), kCopyEndings);
    longest_ = {std::ranges::max(names_, {}, [&](const std::string& name) { return TokensWithin(name, tokenizer); })};
  }

  Json Item(size_t sample, int64_t length, double depth) {
    for (int tries = 0; tries < kTries; ++tries) {
      std::vector<Place> places;
      std::optional<Place> place;
      const std::string context =
          Filled(haystack_, length, longest_, tokenizer_, draws_, "copies", [&](Haystack::Words words) {
            places = NamesIn(words);
            place = PlaceAt(depth, places, words.size());
            return Repeated(words, place ? place->word : words.size());
          });
      if (!place) continue;
      std::vector<std::string> endings{place->name};
      AddOthers(Distinct(places), endings);
      AddOthers(names_, endings);
      draws_.Shuffle(endings);
      return {
          {"ctx", context}, {"endings", endings}, {"label", std::ranges::find(endings, place->name) - endings.begin()},
          {"depth", depth}, {"length", length},   {"sample", sample}};
    }
    Fail("copies: got no name in {} passages of length {}, expected some; try another text, or longer ones", kTries,
         length);
  }

 private:
  void AddOthers(const std::vector<std::string>& names, std::vector<std::string>& endings) {
    for (const size_t i : draws_.Sample(names.size(), names.size())) {
      if (endings.size() == kCopyEndings) return;
      if (!std::ranges::contains(endings, names[i])) endings.push_back(names[i]);
    }
  }

  const Haystack& haystack_;
  const Tokenizer& tokenizer_;
  std::vector<std::string> names_, longest_;
  Draws draws_;
};

}  // namespace

std::string_view NameIn(std::string_view before, std::string_view word) {
  if (before.empty() || !IsLower(before.back())) return {};
  const auto letters =
      static_cast<size_t>(std::ranges::find_if(word, [](char c) { return !IsUpper(c) && !IsLower(c); }) - word.begin());
  const std::string_view name = word.substr(0, letters), after = word.substr(letters);
  const bool ends = after.find_first_not_of(",;:.!?") == after.npos;
  return letters >= 4 && ends && IsUpper(name[0]) && std::ranges::all_of(name.substr(1), IsLower) ? name
                                                                                                  : std::string_view();
}

std::vector<Json> MakeCopies(const CopyQuestion& question, const Haystack& haystack, const Tokenizer& tokenizer) {
  CopyMaker maker(question, haystack, tokenizer);
  return ForGrid(question.samples, question.lengths, question.depths, [&](size_t sample, int64_t length, double depth) {
    return std::vector{maker.Item(sample, length, depth)};
  });
}

}  // namespace tare
