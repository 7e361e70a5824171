// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/choice_forms.h"

#include <algorithm>
#include <iterator>

#include "experiments/tasks/items/harness_log.h"
#include "experiments/tasks/items/hellaswag.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/formatted.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// Every form as a list of fields that an item of it has, and how it is read.
struct Form {
  const char* name;
  std::initializer_list<const char*> fields;
  void (*read)(const nlohmann::json& json, ChoiceItem& item);
};

void ReadWritten(const nlohmann::json& json, ChoiceItem& item) {
  item.endings = StringsField(json, "endings", item.where);
  item.contexts = {StringField(json, "ctx", item.where)};
  item.label = IndexField(json, "label", item.endings.size(), item.where);
  item.keys = KeysOf(json, {"ctx", "activity_label", "ctx_a", "ctx_b", "endings", "label"});
}

void ReadHellaswag(const nlohmann::json& json, ChoiceItem& item) {
  for (const std::string& ending : StringsField(json, "endings", item.where))
    item.endings.push_back(PrepareHellaswag(ending));
  item.contexts = {HellaswagContext(StringField(json, "activity_label", item.where),
                                    StringField(json, "ctx_a", item.where), StringField(json, "ctx_b", item.where))};
  item.label = IndexField(json, "label", item.endings.size(), item.where);
  item.keys = KeysOf(json, {"ctx", "activity_label", "ctx_a", "ctx_b", "endings", "label"});
}

// The choices of ARC and OpenBookQA: texts, and the labels of which answerKey is one.
void ReadLettered(const nlohmann::json& json, ChoiceItem& item) {
  const nlohmann::json& choices = json.at("choices");
  if (!choices.is_object()) Fail("{}: \"choices\": got {}, expected text and label", item.where, choices.dump());
  item.endings = StringsField(choices, "text", item.where);
  const std::vector<std::string> labels = StringsField(choices, "label", item.where);
  const auto answer = std::ranges::find(labels, Strip(StringField(json, "answerKey", item.where)));
  if (labels.size() != item.endings.size() || answer == labels.end())
    Fail("{}: \"answerKey\": got {}, expected one of the labels {}, one per text (test splits have no answers)",
         item.where, json.at("answerKey").dump(), choices.at("label").dump());
  item.label = static_cast<int>(answer - labels.begin());
}

void ReadArc(const nlohmann::json& json, ChoiceItem& item) {
  ReadLettered(json, item);
  item.contexts = {Formatted("Question: {}\nAnswer:", StringField(json, "question", item.where))};
  item.keys = KeysOf(json, {"question", "answerKey"});
}

void ReadOpenBook(const nlohmann::json& json, ChoiceItem& item) {
  ReadLettered(json, item);
  item.contexts = {StringField(json, "question_stem", item.where)};
  item.keys = KeysOf(json, {"question_stem", "answerKey"});
}

void ReadMmlu(const nlohmann::json& json, ChoiceItem& item) {
  const std::vector<std::string> choices = StringsField(json, "choices", item.where);
  if (choices.size() != 4) Fail("{}: \"choices\": got {}, expected four", item.where, choices.size());
  std::string& context = item.contexts.emplace_back(Formatted(
      "The following are multiple choice questions (with answers) about {}.\n\n{}\n",
      Replaced(StringField(json, "subject", item.where), "_", " "), Strip(StringField(json, "question", item.where))));
  item.endings = {"A", "B", "C", "D"};
  for (size_t i = 0; i < choices.size(); ++i) context += Formatted("{}. {}\n", item.endings[i], choices[i]);
  context += "Answer:";
  item.label = IndexField(json, "answer", item.endings.size(), item.where);
  item.keys = KeysOf(json, {"question", "answer"});
}

void ReadPiqa(const nlohmann::json& json, ChoiceItem& item) {
  item.contexts = {Formatted("Question: {}\nAnswer:", StringField(json, "goal", item.where))};
  item.endings = {StringField(json, "sol1", item.where), StringField(json, "sol2", item.where)};
  item.label = IndexField(json, "label", item.endings.size(), item.where);
  item.keys = KeysOf(json, {"goal", "sol1", "sol2", "label"});
}

void ReadWinogrande(const nlohmann::json& json, ChoiceItem& item) {
  const std::string& sentence = StringField(json, "sentence", item.where);
  const size_t gap = sentence.find('_');
  if (gap == std::string::npos) Fail("{}: \"sentence\": got '{}', expected a _ for the option", item.where, sentence);
  for (const char* option : {"option1", "option2"})
    item.contexts.push_back(sentence.substr(0, gap) + StringField(json, option, item.where));
  item.endings.assign(2, std::string(Strip(std::string_view(sentence).substr(gap + 1))));
  const std::string& answer = StringField(json, "answer", item.where);
  if (answer != "1" && answer != "2")
    Fail("{}: \"answer\": got '{}', expected 1 or 2 (test splits have no answers)", item.where, answer);
  item.label = answer == "1" ? 0 : 1;
  item.keys = KeysOf(json, {"sentence", "option1", "option2", "answer"});
}

void ReadBoolq(const nlohmann::json& json, ChoiceItem& item) {
  item.contexts = {Formatted("{}\nQuestion: {}?\nAnswer:", StringField(json, "passage", item.where),
                             StringField(json, "question", item.where))};
  item.endings = {"no", "yes"};
  const auto answer = json.find("answer");
  item.label = answer != json.end() && answer->is_boolean()
                   ? static_cast<int>(answer->get<bool>())
                   : IndexField(json, "label", item.endings.size(), item.where);
  item.keys = KeysOf(json, {"passage", "question", "label", "answer"});
}

// The first whose fields are all there.
const Form kForms[] = {{"lm-evaluation-harness's log", {"doc", "arguments", "target"}, ReadLoggedChoice},
                       {"hellaswag", {"activity_label", "ctx_a", "ctx_b"}, ReadHellaswag},
                       {"Tare's own", {"ctx"}, ReadWritten},
                       {"arc", {"question", "choices", "answerKey"}, ReadArc},
                       {"openbookqa", {"question_stem", "choices", "answerKey"}, ReadOpenBook},
                       {"mmlu", {"question", "subject", "choices", "answer"}, ReadMmlu},
                       {"piqa", {"goal", "sol1", "sol2"}, ReadPiqa},
                       {"winogrande", {"sentence", "option1", "option2", "answer"}, ReadWinogrande},
                       {"boolq", {"passage", "question"}, ReadBoolq}};

std::string FormsText() {
  std::string text;
  for (const Form& form : kForms) {
    text += Formatted("{}{} (", text.empty() ? "" : ", ", form.name);
    for (const char* field : form.fields) text += Formatted("{}{}", field == *form.fields.begin() ? "" : " ", field);
    text += ")";
  }
  return text;
}

}  // namespace

void ReadChoiceForm(const nlohmann::json& json, ChoiceItem& item) {
  const auto form = std::ranges::find_if(kForms, [&](const Form& known) { return HasFields(json, known.fields); });
  if (form == std::end(kForms)) {
    std::string fields;
    for (const auto& [name, value] : json.items()) fields += Formatted("{}{}", fields.empty() ? "" : " ", name);
    Fail("{}: got the fields {}, expected those of an item: {}{}", item.where, fields, FormsText(),
         HasFields(json, {"prompt", "targets"}) ? "; try generate=FILE" : "");
  }
  form->read(json, item);
}

}  // namespace tare
