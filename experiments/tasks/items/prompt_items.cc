// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/prompt_items.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/tasks/items/harness_log.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/file/json.h"

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

void ReadOwn(const nlohmann::json& json, PromptItem& item) {
  item.prompt = StringField(json, "prompt", item.where);
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

}  // namespace

PromptItem ParsePrompt(std::string_view text, const std::string& where) {
  const nlohmann::json json = ParseObject(text, where, "\"prompt\" and \"targets\"");
  PromptItem item;
  item.where = where;
  IsHarnessLog(json) ? ReadLoggedPrompt(json, item) : ReadOwn(json, item);
  if (item.targets.empty() || std::ranges::any_of(item.targets, [](const auto& t) { return Strip(t).empty(); }))
    Fail("{}: got {}, expected at least one target, and text in each", where,
         item.targets.empty() ? "no target" : "an empty target");
  return item;
}

std::vector<PromptItem> LoadPrompts(const std::filesystem::path& path, size_t limit, TakeFrom from) {
  std::vector<PromptItem> items = LoadLines(path, 0, TakeFrom::kStart, ParsePrompt);
  std::set<std::pair<std::string, std::string>> seen;
  std::erase_if(items, [&](const PromptItem& item) {
    return item.keys.contains("doc_id") && !seen.emplace(item.keys["doc_id"].dump(), item.prompt).second;
  });
  std::vector<PromptItem> taken;
  for (const size_t place : TakenPlaces(items.size(), limit, from)) taken.push_back(std::move(items[place]));
  return taken;
}

}  // namespace tare
