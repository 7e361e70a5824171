// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/post_processor.h"

#include "experiments/text/tokenizer/steps.h"

namespace tare::pipeline {
namespace {

struct Around {
  std::vector<int32_t> before, after;
};

// Files in use have up to four. Every text gets them, so a small file with many could exhaust memory.
constexpr size_t kMostAround = 64;

void RequireFew(const std::vector<int32_t>& before, const std::vector<int32_t>& after, const std::string& where) {
  if (before.size() + after.size() > kMostAround)
    Fail("{}: got more than {} ids around a text, expected a few; is the file damaged?", where, kMostAround);
}

Around ParseTemplate(const Json& json, const std::string& where) {
  const Json single = Get<Json>(json, "single", where), tokens = GetOr(json, "special_tokens", Json::object(), where);
  if (!single.is_array()) Fail("{}: single: got {}, expected a list", where, single.dump());
  Around around;
  bool seen = false;
  for (const Json& item : single) {
    if (item.is_object() && item.contains("Sequence")) {
      if (seen) Fail("{}: single: got the text twice, expected it once", where);
      seen = true;
      continue;
    }
    if (!item.is_object() || !item.contains("SpecialToken"))
      Fail("{}: single: got {}, expected a Sequence or a SpecialToken", where, item.dump());
    const auto name = Get<std::string>(item["SpecialToken"], "id", where);
    if (!tokens.is_object() || !tokens.contains(name))
      Fail("{}: special_tokens: got no '{}', which single names", where, name);
    for (const int32_t id : Get<std::vector<int32_t>>(tokens[name], "ids", where))
      (seen ? around.after : around.before).push_back(id);
    RequireFew(around.before, around.after, where);
  }
  return around;
}

// ["</s>", 2]
int32_t IdOf(const Json& pair, const std::string& where) {
  if (!pair.is_array() || pair.size() != 2) Fail("{}: got {}, expected [token, id]", where, pair.dump());
  return IntegerOf<int32_t>(pair[1], where);
}

Around ParseClsSep(const Json& json, const std::string& where) {
  return {{IdOf(Get<Json>(json, "cls", where), where)}, {IdOf(Get<Json>(json, "sep", where), where)}};
}

Around ParseByteLevelProcessor(const Json&, const std::string&) { return {}; }  // changes offsets alone

}  // namespace

PostProcessor::PostProcessor(const nlohmann::json& json, const std::string& where) {
  static const Table<Around> table{{"TemplateProcessing", ParseTemplate},
                                   {"RobertaProcessing", ParseClsSep},
                                   {"BertProcessing", ParseClsSep},
                                   {"ByteLevel", ParseByteLevelProcessor}};
  std::vector<Json> objects;
  Flatten(json, where, "processors", &objects);
  for (const Json& object : objects) {
    const Around around = StepOf(object, where, table);
    before.insert(before.begin(), around.before.begin(), around.before.end());
    after.insert(after.end(), around.after.begin(), around.after.end());
    RequireFew(before, after, where);
  }
}

}  // namespace tare::pipeline
