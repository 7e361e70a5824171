// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/tasks/items/lines.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::pair<std::string_view, AnswerScore> kScores[] = {{"exact", AnswerScore::kExact},
                                                                {"contains", AnswerScore::kContains},
                                                                {"all", AnswerScore::kAll},
                                                                {"number", AnswerScore::kNumber}};
constexpr int64_t kHarnessTokens = 256;  // HFLM.max_gen_toks

// A string, or a list of strings.
std::vector<std::string> TextsOf(const nlohmann::json& json, const char* key, const std::string& where) {
  const nlohmann::json list = json.is_array() ? json : nlohmann::json::array({json});
  std::vector<std::string> texts;
  for (const nlohmann::json& text : list) {
    if (!text.is_string()) Fail("{}: \"{}\": got {}, expected a text or a list of texts", where, key, text.dump());
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::optional<double> NumberField(const nlohmann::json& json, const char* key, double least, double most,
                                  const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end() || field->is_null()) return std::nullopt;
  const double value = field->is_number() ? field->get<double>() : std::nan("");
  if (!(value >= least && value <= most))
    Fail("{}: \"{}\": got {}, expected a number from {} to {}", where, key, field->dump(), least, most);
  return value;
}

std::optional<int64_t> TokensField(const nlohmann::json& json, const char* key, const std::string& where) {
  constexpr double kMost = 1 << 24;
  const std::optional<double> value = NumberField(json, key, 1, kMost, where);
  if (value && *value != std::floor(*value)) Fail("{}: \"{}\": got {}, expected a whole number", where, key, *value);
  return value ? std::optional(static_cast<int64_t>(*value)) : std::nullopt;
}

void ReadSampling(const nlohmann::json& json, PromptItem& item) {
  constexpr double kHottest = 1e6, kLeastShare = 1e-9;
  item.temperature = NumberField(json, "temperature", 0, kHottest, item.where);
  item.top_p = NumberField(json, "top_p", kLeastShare, 1, item.where);
}

AnswerScore ScoreField(const nlohmann::json& json, const std::string& where) {
  if (!json.contains("score")) return AnswerScore::kExact;
  const std::string& name = StringField(json, "score", where);
  const auto score = std::ranges::find(kScores, name, &std::pair<std::string_view, AnswerScore>::first);
  if (score == std::end(kScores)) Fail("{}: \"score\": got '{}', expected exact, contains, all or number", where, name);
  return score->second;
}

void ReadOwn(const nlohmann::json& json, std::string_view text, PromptItem& item) {
  if (json.contains("messages") && json.contains("prompt"))
    Fail("{}: got \"prompt\" and \"messages\", expected one of them", item.where);
  if (json.contains("messages")) item.chat = ParseOrderedJson(text, item.where);
  item.prompt = item.chat.is_null() ? StringField(json, "prompt", item.where) : json["messages"].dump();
  if (!json.contains("targets")) Fail("{}: got no \"targets\", expected a list of texts", item.where);
  item.targets = TextsOf(json["targets"], "targets", item.where);
  if (json.contains("stop")) item.stops = TextsOf(json["stop"], "stop", item.where);
  if (std::ranges::contains(item.stops, ""))
    Fail("{}: \"stop\": got an empty text, expected one that ends", item.where);
  item.tokens = TokensField(json, "max_tokens", item.where);
  ReadSampling(json, item);
  item.score = ScoreField(json, item.where);
  item.keys = KeysOf(json, {"prompt", "targets", "stop", "max_tokens", "temperature", "top_p", "score"});
}

void ReadLoggedTargets(const nlohmann::json& target, PromptItem& item) {
  item.targets = TextsOf(target.is_number() ? nlohmann::json(target.dump()) : target, "target", item.where);
  const auto worked = [](const std::string& text) { return text.contains("#### "); };
  if (std::ranges::all_of(item.targets, worked)) item.score = AnswerScore::kNumber;
}

void ReadLoggedPrompt(const nlohmann::json& json, PromptItem& item) {
  const LoggedRequest request = LoggedGeneration(json, item.where);
  const nlohmann::json& arguments = request.arguments;
  for (const auto& [name, value] : arguments.items()) {
    constexpr std::string_view kKnown[] = {"until", "max_gen_toks", "do_sample", "temperature", "top_p"};
    if (!std::ranges::contains(kKnown, name))
      Fail("{}: \"arguments\": got {}, expected until, max_gen_toks, do_sample, temperature and top_p", item.where,
           name);
  }
  item.prompt = request.prompt;
  if (arguments.contains("until") && !arguments["until"].is_null())
    item.stops = TextsOf(arguments["until"], "until", item.where);
  std::erase(item.stops, "");  // as the harness does
  item.tokens = TokensField(arguments, "max_gen_toks", item.where).value_or(kHarnessTokens);
  ReadSampling(arguments, item);
  const auto draws = arguments.find("do_sample");
  if (draws != arguments.end() && *draws == false) item.temperature = 0;
  ReadLoggedTargets(json.at("target"), item);
  item.keys = LoggedKeys(json);
}

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
  std::string digits(match);
  std::erase_if(digits, [](char c) { return c == '$' || c == ','; });
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

PromptItem ParsePrompt(std::string_view text, const std::string& where) {
  const nlohmann::json json = ParseObject(text, where, "\"prompt\" and \"targets\"");
  PromptItem item;
  item.where = where;
  IsHarnessLog(json) ? ReadLoggedPrompt(json, item) : ReadOwn(json, text, item);
  if (item.targets.empty() || std::ranges::any_of(item.targets, [](const auto& t) { return Strip(t).empty(); }))
    Fail("{}: got {}, expected at least one target, and text in each", where,
         item.targets.empty() ? "no target" : "an empty target");
  return item;
}

std::vector<PromptItem> LoadPrompts(const std::filesystem::path& path, size_t limit, TakeFrom from) {
  std::vector<PromptItem> items = LoadLines<ParsePrompt>(path);
  std::set<std::pair<std::string, std::string>> seen;
  std::erase_if(items, [&](const PromptItem& item) {
    return item.keys.contains("doc_id") && !seen.emplace(item.keys["doc_id"].dump(), item.prompt).second;
  });
  std::vector<PromptItem> taken;
  for (const size_t place : TakenPlaces(items.size(), limit, from)) taken.push_back(std::move(items[place]));
  return taken;
}

bool AnswerScores::Right(AnswerScore score) const {
  const bool right[] = {exact, contains, recall == 1, number};  // in the order of AnswerScore
  return right[static_cast<size_t>(score)];
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
    const char32_t c = Next(plain, &at);
    pipeline::IsWhitespace(c) ? end() : Append(c, &word);
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
