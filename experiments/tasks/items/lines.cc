// SPDX-License-Identifier: Apache-2.0
// Lines of a file, requests and labels of a log, places within a limit, fields of any line, fields of a log's line.
#include "experiments/tasks/items/lines.h"

#include <algorithm>
#include <cmath>

#include "experiments/significance/draws.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

// Lines that are not whitespace; the first `limit`, or all for 0. What is whitespace can be told of UTF-8 alone.
std::vector<JsonLine> FirstLines(std::string_view rest, size_t limit, const std::string& path) {
  std::vector<JsonLine> lines;
  for (size_t number = 1; !rest.empty() && (limit == 0 || lines.size() < limit); ++number) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    std::string where = path + ": line " + std::to_string(number);
    RequireUtf8(text, where);
    if (!Strip(text).empty()) lines.push_back({text, std::move(where), number});
  }
  return lines;
}

using Arguments = std::vector<std::vector<std::string>>;

// A list, or an object whose i-th key is stem and i.
std::vector<nlohmann::json> Numbered(const nlohmann::json& json, const char* stem) {
  std::vector<nlohmann::json> list;
  if (json.is_array()) list.assign(json.begin(), json.end());
  if (!json.is_object()) return list;
  for (auto at = json.find(Formatted("{}0", stem)); at != json.end();
       at = json.find(Formatted("{}{}", stem, list.size())))
    list.push_back(*at);
  return list;
}

// The mutual information's requests: the same continuations again, without a context.
void DropUnconditional(Arguments& requests) {
  const size_t half = requests.size() / 2;
  if (half < 2 || requests.size() % 2 != 0) return;
  for (size_t i = 0; i < half; ++i) {
    const auto &with = requests[i], &without = requests[half + i];
    if (with[0].empty() || !without[0].empty() || with[1] != without[1]) return;
  }
  requests.resize(half);
}

// Endings that the target may mean.
std::vector<size_t> Targets(const nlohmann::json& target, const ChoiceItem& item) {
  if (item.contexts.size() > 1) return AllBelow(item.endings.size());
  std::vector<size_t> named;
  const std::string text = target.is_string() ? target.get<std::string>() : target.dump();
  const std::optional<int64_t> index = ParseNumber<int64_t>(text);
  if (index && *index >= 0 && *index < std::ssize(item.endings)) named.push_back(static_cast<size_t>(*index));
  const auto same =
      std::ranges::find_if(item.endings, [&](const std::string& ending) { return Strip(ending) == Strip(text); });
  const auto place = static_cast<size_t>(same - item.endings.begin());
  if (same != item.endings.end() && !std::ranges::contains(named, place)) named.push_back(place);
  return named;
}

int LoggedLabel(const nlohmann::json& json, const ChoiceItem& item) {
  std::vector<size_t> labels = Targets(json.at("target"), item);
  const std::vector<LoggedScore> scores = LoggedScores(json, item.endings.size());
  const auto answer =
      static_cast<size_t>(std::ranges::max_element(scores, {}, &LoggedScore::log_likelihood) - scores.begin());
  const std::optional<double> right = json.contains("acc") ? LoggedNumber(json["acc"]) : std::nullopt;
  if (!scores.empty() && right)
    std::erase_if(labels, [&](size_t label) { return (label == answer) != (*right > 0.5); });
  if (labels.size() != 1)
    Fail("{}: \"target\": got {}, which {}, expected one of the {} endings", item.where, json.at("target").dump(),
         labels.empty() ? "is none, or not what \"acc\" says of the logged answer" : "may be several of them",
         item.endings.size());
  return static_cast<int>(labels.front());
}

}  // namespace

std::vector<size_t> TakenPlaces(size_t n, size_t limit, TakeFrom from) {
  const size_t count = limit == 0 ? n : std::min(n, limit);
  Draws draws(1);  // the same of the same file
  std::vector<size_t> places;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * n / count, end = (i + 1) * n / count;
    places.push_back(from == TakeFrom::kStart ? i : begin + draws.Below(end - begin));
  }
  return places;
}

void ForEachLine(const std::filesystem::path& path, size_t limit, TakeFrom from,
                 const std::function<void(const JsonLine&)>& body) {
  const MappedFile file(path);
  const std::vector<JsonLine> lines = FirstLines(file.text(), from == TakeFrom::kStart ? limit : 0, path.string());
  if (lines.empty()) Fail("{}: got no items, expected one per line in JSON", path.string());
  for (const size_t place : TakenPlaces(lines.size(), limit, from)) body(lines[place]);
}

nlohmann::json ParseObject(std::string_view text, const std::string& where, const char* expected) {
  nlohmann::json json = ParseJson(text, where);
  if (!json.is_object()) Fail("{}: got {}, expected an object with {}", where, json.type_name(), expected);
  return json;
}

bool HasFields(const nlohmann::json& json, std::initializer_list<const char*> fields) {
  return std::ranges::all_of(fields, [&](const char* field) { return json.contains(field); });
}

const std::string& StringField(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end()) Fail("{}: got no \"{}\", expected a string", where, key);
  if (!field->is_string()) Fail("{}: \"{}\": got {}, expected a string", where, key, field->dump());
  return field->get_ref<const std::string&>();
}

std::vector<std::string> StringsField(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end() || !field->is_array() || field->size() < 2)
    Fail("{}: \"{}\": got {}, expected a list of at least two strings", where, key,
         field == json.end() ? "none" : field->dump());
  std::vector<std::string> strings;
  for (const nlohmann::json& string : *field) {
    if (!string.is_string()) Fail("{}: \"{}\": got {}, expected strings", where, key, string.dump());
    strings.push_back(string.get<std::string>());
  }
  return strings;
}

int IndexField(const nlohmann::json& json, const char* key, size_t count, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end()) Fail("{}: got no \"{}\", expected the true ending's index", where, key);
  const int64_t index = field->is_string() ? ParseNumber<int64_t>(field->get_ref<const std::string&>()).value_or(-1)
                        : field->is_number_integer() ? field->get<int64_t>()
                                                     : -1;
  if (index < 0 || static_cast<uint64_t>(index) >= count)
    Fail("{}: \"{}\": got {}, expected 0 to {}, the index of an ending (test splits have no answers)", where, key,
         field->dump(), count - 1);
  return static_cast<int>(index);
}

Json KeysOf(const nlohmann::json& json, std::initializer_list<const char*> itself) {
  Json keys = Json::object();
  for (const auto& [name, value] : json.items()) {
    if (value.is_primitive() && !value.is_null() && !std::ranges::contains(itself, std::string_view(name)))
      keys[name] = value;
  }
  return keys;
}

bool IsHarnessLog(const nlohmann::json& json) { return HasFields(json, {"doc", "arguments", "target"}); }

Arguments LoggedArguments(const nlohmann::json& json, const std::string& where) {
  Arguments requests;
  for (const nlohmann::json& request : Numbered(json.at("arguments"), "gen_args_")) {
    std::vector<std::string>& arguments = requests.emplace_back();
    for (const nlohmann::json& argument : Numbered(request, "arg_")) {
      if (!argument.is_string())
        Fail("{}: \"arguments\": got {}, expected strings (a task that generates answers is generate=FILE)", where,
             argument.dump());
      arguments.push_back(argument.get<std::string>());
    }
    if (arguments.empty() || arguments.size() > 2 || arguments.size() != requests.front().size())
      Fail("{}: \"arguments\": got {} in request {}, expected a context and a continuation, or a text", where,
           arguments.size(), requests.size());
  }
  if (requests.empty()) Fail("{}: \"arguments\": got no request", where);
  return requests;
}

std::optional<double> LoggedNumber(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  if (json.is_boolean()) return json.get<bool>();
  if (!json.is_string()) return std::nullopt;
  const auto& text = json.get_ref<const std::string&>();
  if (text == "True" || text == "False") return text == "True";
  return ParseNumber<double>(text);
}

std::vector<LoggedScore> LoggedScores(const nlohmann::json& json, size_t endings) {
  const auto responses = json.find("filtered_resps");
  if (responses == json.end() || !responses->is_array() || responses->size() < endings) return {};
  std::vector<LoggedScore> scores;
  for (const nlohmann::json& response : *responses) {
    if (scores.size() == endings) break;  // others are without a context
    const bool pair = response.is_array() && response.size() == 2;
    const std::optional<double> value = pair ? LoggedNumber(response[0]) : std::nullopt;
    if (!value || std::isnan(*value)) return {};
    scores.push_back({*value, response[1] == "True" || response[1] == true});
  }
  return scores;
}

LoggedRequest LoggedGeneration(const nlohmann::json& json, const std::string& where) {
  const std::vector<nlohmann::json> requests = Numbered(json.at("arguments"), "gen_args_");
  const std::vector<nlohmann::json> arguments =
      requests.size() == 1 ? Numbered(requests.front(), "arg_") : std::vector<nlohmann::json>{};
  if (arguments.size() != 2 || !arguments[0].is_string() || !arguments[1].is_object())
    Fail("{}: \"arguments\": got {}, expected one request of a context and how to generate after it", where,
         requests.size() == 1 ? "another request" : std::to_string(requests.size()) + " requests");
  return {arguments[0].get<std::string>(), arguments[1]};
}

void ReadLoggedChoice(const nlohmann::json& json, ChoiceItem& item) {
  Arguments requests = LoggedArguments(json, item.where);
  if (requests.front().size() != 2 || requests.size() < 2)
    Fail("{}: \"arguments\": got {} of {}, expected several of a context and a continuation; try {}=FILE", item.where,
         requests.size(), requests.front().size(), requests.front().size() == 1 ? "documents" : "loglikelihood");
  DropUnconditional(requests);
  const bool one_context = std::ranges::all_of(requests, [&](const auto& r) { return r[0] == requests[0][0]; });
  const bool spaced = std::ranges::all_of(requests, [](const auto& r) { return r[1].starts_with(' '); });
  for (const std::vector<std::string>& request : requests) {
    if (!one_context || item.contexts.empty()) item.contexts.push_back(request[0]);
    item.endings.push_back(request[1].substr(spaced ? 1 : 0));
  }
  item.between = spaced ? " " : "";
  item.label = LoggedLabel(json, item);
  item.keys = LoggedKeys(json);
}

Json LoggedKeys(const nlohmann::json& json) {
  constexpr size_t kLongest = 64;
  Json keys = Json::object();
  if (json.contains("doc_id") && json["doc_id"].is_number_integer()) keys["doc_id"] = json["doc_id"];
  if (!json.at("doc").is_object()) return keys;
  const Json fields = KeysOf(json["doc"], {});
  for (const auto& [name, value] : fields.items()) {
    if (!value.is_string() || value.get_ref<const std::string&>().size() <= kLongest) keys[name] = value;
  }
  return keys;
}

}  // namespace tare
