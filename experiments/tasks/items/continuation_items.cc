// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/continuation_items.h"

#include <algorithm>

#include "experiments/tasks/items/harness_log.h"
#include "experiments/tasks/items/lines.h"
#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {
namespace {

void ReadLogged(const nlohmann::json& json, ChoiceItem& item) {
  const std::vector<std::vector<std::string>> requests = LoggedArguments(json, item.where);
  if (requests.size() != 1 || requests[0].size() != 2)
    Fail("{}: \"arguments\": got {} of {}, expected one of a context and a continuation; try {}=FILE", item.where,
         requests.size(), requests[0].size(), requests[0].size() == 1 ? "documents" : "choice");
  item.contexts = {requests[0][0]};
  item.endings = {requests[0][1]};
  item.keys = LoggedKeys(json);
}

// lambada_openai.yaml and lambada_standard.yaml: text.split(' ')
void ReadLambada(const nlohmann::json& json, ChoiceItem& item) {
  const std::string& text = StringField(json, "text", item.where);
  const size_t space = text.rfind(' ');
  item.contexts = {space == std::string::npos ? "" : text.substr(0, space)};
  item.endings = {space == std::string::npos ? " " + text : text.substr(space)};
  item.keys = KeysOf(json, {"text"});
}

std::vector<std::string> Continuations(const nlohmann::json& json, const std::string& where) {
  const auto field = json.find("continuation");
  if (field == json.end() || !field->is_array()) return {StringField(json, "continuation", where)};
  return field->size() == 1 && field->front().is_string() ? std::vector{field->front().get<std::string>()}
                                                          : StringsField(json, "continuation", where);
}

}  // namespace

ChoiceItem ParseContinuation(std::string_view text, const std::string& where) {
  const nlohmann::json json = ParseObject(text, where, "\"context\" and \"continuation\", or \"text\"");
  ChoiceItem item;
  item.where = where;
  item.between = "";
  if (IsHarnessLog(json)) {
    ReadLogged(json, item);
  } else if (json.contains("text") && !json.contains("continuation")) {
    ReadLambada(json, item);
  } else if (json.contains("endings") && !json.contains("continuation")) {
    Fail("{}: got \"endings\", expected a context and its \"continuation\"; try choice=FILE", where);
  } else {
    item.contexts = {StringField(json, "context", where)};
    item.endings = Continuations(json, where);
    item.keys = KeysOf(json, {"context", "continuation"});
  }
  if (std::ranges::contains(item.endings, "")) Fail("{}: \"continuation\": got an empty one, expected text", where);
  return item;
}

std::vector<ChoiceItem> LoadContinuations(const std::filesystem::path& path, size_t limit, TakeFrom from) {
  return LoadLines(path, limit, from, ParseContinuation);
}

}  // namespace tare
