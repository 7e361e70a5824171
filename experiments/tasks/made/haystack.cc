// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/made/makers.h"

#include <algorithm>
#include <cmath>
#include <ranges>
#include <unordered_map>

#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr size_t kLeastWords = 8;  // or it is no haystack
constexpr std::string_view kBlanks = " \t\r\n\f\v";

}  // namespace

size_t Dealer::Next(Draws& draws) {
  if (left_.empty()) {
    left_ = AllBelow(n_);
    draws.Shuffle(left_);
  }
  const size_t next = left_.back();
  left_.pop_back();
  return next;
}

std::vector<double> DepthDealer::At(size_t turn, Draws& draws) {
  std::vector<double> depths;
  for (size_t thing = 0; thing < orders_.size(); ++thing) {
    std::vector<size_t>& order = orders_[thing];
    if (turn == 0) {
      order = AllBelow(depths_.size());
      if (thing > 0) draws.Shuffle(order);
    }
    depths.push_back(depths_[order[turn]]);
  }
  return depths;
}

std::vector<std::string> MadeItem::Endings() const {
  std::vector<std::string> endings{answer};
  endings.insert(endings.end(), wrong.begin(), wrong.end());
  return endings;
}

Json ItemWriter::Write(const MadeItem& item) {
  Json json;
  if (form_ == AnswerForm::kTargets) {
    const bool one = item.listed.size() < 2;
    json = {{"prompt", item.context},
            {"targets", one ? std::vector{item.answer} : item.listed},
            {"stop", item.stop},
            {"score", one ? item.score : "all"}};
  } else {
    std::vector<std::string> endings = item.wrong;
    draws_.Shuffle(endings);
    Dealer& places = places_.try_emplace(endings.size() + 1, endings.size() + 1).first->second;
    const size_t label = places.Next(draws_);
    endings.insert(endings.begin() + static_cast<ptrdiff_t>(label), item.answer);
    json = {{"ctx", item.context}, {"endings", endings}, {"label", label}};
  }
  json.update(item.keys);
  return json;
}

std::vector<std::string_view> Haystack::WordsOf(std::string_view text, const std::string& where) {
  RequireUtf8(text, where);
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(kBlanks); at != text.npos;) {
    ThrowIfStopped();
    const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = text.find_first_not_of(kBlanks, end);
  }
  if (words.empty()) Fail("{}: got no words, expected prose", where);
  return words;
}

Haystack::Haystack(std::string_view text, const Tokenizer& tokenizer, std::string where) : where_(std::move(where)) {
  words_ = WordsOf(text, where_);
  std::unordered_map<std::string_view, size_t> tokens;
  before_.push_back(0);
  for (const std::string_view word : words_) {
    ThrowIfStopped();
    const auto [at, is_new] = tokens.try_emplace(word);
    if (is_new) at->second = TokensWithin(word, tokenizer);
    before_.push_back(before_.back() + at->second);
  }
}

Haystack::Words Haystack::Draw(size_t tokens, Draws& draws) const {
  if (tokens > before_.back())
    Fail("{}: got about {} tokens, expected at least {}; try a longer text or shorter lengths", where_, before_.back(),
         tokens);
  const auto starts = static_cast<size_t>(std::ranges::upper_bound(before_, before_.back() - tokens) - before_.begin());
  const size_t start = draws.Below(starts);
  const auto end =
      static_cast<size_t>(std::ranges::upper_bound(before_, before_[start] + tokens) - before_.begin()) - 1;
  return words().subspan(start, end - start);
}

size_t PositionsOf(const std::string& context, const std::vector<std::string>& endings, const Tokenizer& tokenizer) {
  const std::string& longest =
      std::ranges::max(endings, {}, [&](const std::string& ending) { return TokensWithin(ending, tokenizer); });
  return tokenizer.EncodeWithBos(context + " " + longest).size();
}

std::string Filled(const Haystack& haystack, int64_t positions, const std::vector<std::string>& endings,
                   const Tokenizer& tokenizer, Draws& draws, const std::string& where,
                   const std::function<std::string(Haystack::Words)>& make) {
  const auto room = static_cast<size_t>(positions);
  const size_t bare = PositionsOf(make({}), endings, tokenizer);
  if (bare + kLeastWords > room)
    Fail("{}: got a length of {}, expected at least {}: that much is not prose", where, positions, bare + kLeastWords);
  Haystack::Words words = haystack.Draw(room - bare, draws);
  while (true) {
    std::string context = make(words);
    if (context.empty()) return context;
    const size_t taken = PositionsOf(context, endings, tokenizer);
    if (taken <= room || words.empty()) return context;
    words = words.first(words.size() - std::min(words.size(), (taken - room) / 4 + 1));
  }
}

size_t TokensWithin(std::string_view piece, const Tokenizer& tokenizer) {
  const size_t with = tokenizer.Encode(std::string("a ").append(piece)).size(), without = tokenizer.Encode("a").size();
  return with > without ? with - without : 0;
}

std::string WithHidden(Haystack::Words words, const std::vector<HiddenText>& texts) {
  std::vector<std::string_view> all;
  ptrdiff_t last = 0;
  for (const HiddenText& hidden : texts) {
    const ptrdiff_t cut = std::lround(hidden.place * static_cast<double>(words.size()));
    all.insert(all.end(), words.begin() + last, words.begin() + cut);
    all.push_back(hidden.text);
    last = cut;
  }
  all.insert(all.end(), words.begin() + last, words.end());
  return Listed(all, " ");
}

std::vector<std::string> CommonWords(Haystack::Words words) {
  std::map<std::string_view, int64_t> counts;
  for (const std::string_view word : words) {
    ThrowIfStopped();
    if (word.size() >= 4 && std::ranges::all_of(word, [](char c) { return 'a' <= c && c <= 'z'; })) ++counts[word];
  }
  std::vector<std::pair<int64_t, std::string>> ranked;
  for (const auto& [word, count] : counts) ranked.emplace_back(-count, word);
  std::ranges::sort(ranked);
  return ranked | std::views::values | std::ranges::to<std::vector>();
}

std::vector<Json> ForGrid(const ItemGrid& grid,
                          const std::function<std::vector<Json>(size_t sample, int64_t length, size_t turn)>& make) {
  for (const double depth : grid.depths) {
    if (!(depth >= 0 && depth <= 1)) Fail("depths: got {}, expected 0 to 1", depth);
  }
  std::vector<Json> items;
  for (size_t sample = 0; sample < grid.samples; ++sample) {
    for (const int64_t length : grid.lengths) {
      ThrowIfStopped();
      for (size_t turn = 0; turn < grid.depths.size(); ++turn)
        std::ranges::move(make(sample, length, turn), std::back_inserter(items));
    }
  }
  return items;
}

}  // namespace tare
