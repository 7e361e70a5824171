// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <set>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kStretch = 8;  // words of it that stand again before the name
constexpr size_t kCopyEndings = 4;
constexpr int kTries = 30000;  // passages, until one has four names that can be asked for: it takes one second

bool IsUpper(char c) { return 'A' <= c && c <= 'Z'; }
bool IsLower(char c) { return 'a' <= c && c <= 'z'; }

struct NamePlace {
  size_t word = 0;
  std::string name;
};

// Names with at least a stretch's length of words before them.
std::vector<NamePlace> NamesIn(Haystack::Words words) {
  std::vector<NamePlace> places;
  for (size_t i = kStretch; i < words.size(); ++i) {
    ThrowIfStopped();  // they may be the whole text
    if (const std::string_view name = NameIn(words[i - 1], words[i]); !name.empty())
      places.push_back({i, std::string(name)});
  }
  return places;
}

// The words that stand again before a place.
Haystack::Words StretchBefore(Haystack::Words words, const NamePlace& place) {
  return words.subspan(place.word - kStretch, kStretch);
}

// For each depth the nearest place of a name that no other depth has. turns: the order in which depths choose.
std::vector<NamePlace> PlacesAt(const std::vector<double>& depths, const std::vector<size_t>& turns,
                                Haystack::Words words) {
  std::vector<NamePlace> left = NamesIn(words), chosen(depths.size());
  for (const size_t turn : turns) {
    if (left.empty()) return {};
    const double wanted = depths[turn] * static_cast<double>(words.size());
    chosen[turn] =
        std::ranges::min(left, {}, [&](const NamePlace& p) { return std::abs(static_cast<double>(p.word) - wanted); });
    std::erase_if(left, [&](const NamePlace& p) { return p.name == chosen[turn].name; });
  }
  return chosen;
}

// Whether no stretch before a place has any of the names.
bool AreApart(const std::vector<NamePlace>& places, Haystack::Words words) {
  return std::ranges::none_of(places, [&](const NamePlace& place) {
    const std::string stretch = Listed(StretchBefore(words, place), " ");
    return std::ranges::any_of(places, [&](const NamePlace& other) { return stretch.contains(other.name); });
  });
}

// The text's longest name: an ending may be any. Throws Error for fewer names than an item asks for.
std::string LongestName(const Haystack& haystack, const Tokenizer& tokenizer) {
  const auto names =
      NamesIn(haystack.words()) | std::views::transform(&NamePlace::name) | std::ranges::to<std::set<std::string>>();
  if (names.size() < kCopyEndings)
    Fail("copies: got a text with {} names, expected at least {}; try a novel", names.size(), kCopyEndings);
  return std::ranges::max(names, {}, [&](const std::string& name) { return TokensWithin(name, tokenizer); });
}

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

std::vector<Json> MakeCopies(const ItemGrid& grid, const Haystack& haystack, const Tokenizer& tokenizer) {
  Draws draws(grid.seed);
  DepthDealer dealer(grid.depths, kCopyEndings);
  ItemWriter writer(grid.answers, grid.seed);
  const std::vector<std::string> longest = {LongestName(haystack, tokenizer)};
  return ForGrid(grid, [&](size_t sample, int64_t length, size_t turn) {
    const std::vector<double> depths = dealer.At(turn, draws);
    for (int tries = 0; tries < kTries; ++tries) {
      const std::vector<size_t> turns = draws.Sample(kCopyEndings, kCopyEndings);
      std::vector<NamePlace> places;
      const std::string context =
          Filled(haystack, length, longest, tokenizer, draws, "copies", [&](Haystack::Words words) -> std::string {
            places = PlacesAt(depths, turns, words);
            if (words.empty()) return "\n";
            if (places.empty() || !AreApart(places, words)) return "";
            return Listed(words, " ") + "\n " + Listed(StretchBefore(words, places[0]), " ");
          });
      if (context.empty() || places.empty()) continue;
      return std::vector{writer.Write({.context = context,
                                       .answer = places[0].name,
                                       .wrong = {places[1].name, places[2].name, places[3].name},
                                       .keys = {{"depth", depths[0]}, {"length", length}, {"sample", sample}},
                                       .stop = {"\n", ".", ",", ";", "!", "?"},
                                       .score = "contains"})};
    }
    Fail(
        "copies: got no passage of length {} with {} names apart in {}, expected some; try longer ones, or another "
        "text",
        length, kCopyEndings, kTries);
  });
}

}  // namespace tare
