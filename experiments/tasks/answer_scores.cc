// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/answer_scores.h"

#include <algorithm>
#include <map>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/utf8.h"

namespace tare {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Where a match of the harness's pattern ends that begins here; `at` itself if none does.
size_t NumberEnd(std::string_view text, size_t at) {
  const size_t begin = at + (text[at] == '-' ? 1 : 0);
  size_t end = begin;
  while (end < text.size() && (IsDigit(text[end]) || std::string_view("$.,").contains(text[end]))) ++end;
  return end - begin >= 2 || (end - begin == 1 && IsDigit(text[begin])) ? end : at;
}

// Without signs of money and of thousands, zeros in front, and zeros and a point behind.
std::optional<std::string> PlainNumber(std::string_view match) {
  std::string digits;
  for (const char c : match) {
    if (c != '$' && c != ',') digits += c;
  }
  const bool minus = digits.starts_with('-');
  digits.erase(0, minus ? 1 : 0);
  if (digits.ends_with('.')) digits.pop_back();
  if (std::ranges::count(digits, '.') > 1) return std::nullopt;
  if (digits.contains('.')) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.ends_with('.')) digits.pop_back();
  }
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty() || digits.starts_with('.')) digits.insert(0, "0");
  return (minus && digits != "0" ? "-" : "") + digits;
}

}  // namespace

bool AnswerScores::Right(AnswerScore score) const {
  switch (score) {
    case AnswerScore::kExact:
      return exact;
    case AnswerScore::kContains:
      return contains;
    case AnswerScore::kAll:
      return recall == 1;
    case AnswerScore::kNumber:
      return number;
  }
  return false;
}

std::vector<std::string> NormalWords(std::string_view text) {
  constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
  std::string plain = pipeline::Lowercase(text);
  std::erase_if(plain, [&](char c) { return kPunctuation.contains(c); });
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (size_t at = 0; at < plain.size();) {
    const char32_t c = pipeline::Next(plain, &at);
    pipeline::IsWhitespace(c) ? end() : pipeline::Append(c, &word);
  }
  end();
  return words;
}

double WordF1(const std::vector<std::string>& answer, const std::vector<std::string>& target) {
  if (answer.empty() || target.empty()) return answer.empty() && target.empty() ? 1 : 0;
  std::map<std::string, int> left;
  for (const std::string& word : target) ++left[word];
  int common = 0;
  for (const std::string& word : answer) common += left[word]-- > 0 ? 1 : 0;
  return 2.0 * common / static_cast<double>(answer.size() + target.size());
}

std::optional<std::string> LastNumber(std::string_view text) {
  std::string_view last;
  for (size_t at = 0; at < text.size();) {
    const size_t end = NumberEnd(text, at);
    const std::string_view match = text.substr(at, end - at);
    if (std::ranges::any_of(match, IsDigit)) last = match;
    at = std::max(end, at + 1);
  }
  return last.empty() ? std::nullopt : PlainNumber(last);
}

AnswerScores ScoreAnswer(std::string_view answer, const std::vector<std::string>& targets) {
  const std::vector<std::string> words = NormalWords(answer);
  const std::string lower = pipeline::Lowercase(answer);
  const std::optional<std::string> number = LastNumber(answer);
  AnswerScores scores;
  size_t found = 0;
  for (const std::string& target : targets) {
    const std::vector<std::string> wanted = NormalWords(target);
    scores.exact = scores.exact || words == wanted;
    scores.f1 = std::max(scores.f1, WordF1(words, wanted));
    scores.number = scores.number || (number && number == LastNumber(target));
    found += lower.contains(pipeline::Lowercase(Strip(target))) ? 1 : 0;
  }
  scores.contains = found > 0;
  scores.recall = static_cast<double>(found) / static_cast<double>(targets.size());
  return scores;
}

}  // namespace tare
