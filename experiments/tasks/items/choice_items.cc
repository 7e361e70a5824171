// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <iterator>
#include <span>

#include <unicode/uchar.h>

#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// A context without the whitespace at its end, which goes before the ending: lm-evaluation-harness's _encode_pair.
struct EncodedContext {
  std::string_view text, spaces;
  size_t tokens;
};

EncodedContext EncodeContext(const std::string& context, const ChoiceItem& item, const Tokenizer& tokenizer) {
  const std::string_view text = StripRight(context);
  const size_t tokens = tokenizer.EncodeAfterBos(text).size();
  if (context.empty() && !tokenizer.bos())
    Fail("{}: got an empty context and a tokenizer without <s>, expected text", item.where);
  if (!context.empty() && tokens == 0 && tokenizer.Encode(text).empty())
    Fail("{}: got a context without a token, expected text", item.where);
  return {text, std::string_view(context).substr(text.size()), tokens};
}

EncodedChoice::Ending EncodeEnding(const EncodedContext& context, const std::string& ending, const ChoiceItem& item,
                                   const Tokenizer& tokenizer) {
  EncodedChoice::Ending encoded;
  encoded.tokens =
      tokenizer.EncodeAfterBos(std::string(context.text).append(context.spaces).append(item.between).append(ending));
  encoded.first_scored = context.tokens;
  encoded.characters = CountCharacters(ending);
  if (encoded.tokens.size() <= context.tokens)
    Fail("{}: ending '{}' adds no token to its context, expected at least one to score", item.where, ending);
  return encoded;
}

bool SameContext(const EncodedChoice::Ending& a, const EncodedChoice::Ending& b) {
  return std::ranges::equal(std::span(a.tokens).first(a.first_scored), std::span(b.tokens).first(b.first_scored));
}

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
  return Listed(kForms, ", ",
                [](const Form& form) { return Formatted("{} ({})", form.name, Listed(form.fields, " ")); });
}

void ReadChoiceForm(const nlohmann::json& json, ChoiceItem& item) {
  const auto form = std::ranges::find_if(kForms, [&](const Form& known) { return HasFields(json, known.fields); });
  if (form == std::end(kForms))
    Fail("{}: got the fields {}, expected those of an item: {}{}", item.where,
         Listed(json.items(), " ", [](const auto& field) { return field.key(); }), FormsText(),
         HasFields(json, {"prompt", "targets"}) ? "; try generate=FILE" : "");
  form->read(json, item);
}

// re.sub(r"\[.*?\]", "", text): from a bracket to the next closing one, where both are on one line.
std::string RemoveBracketed(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const size_t open = std::min(text.find('['), text.size());
    kept.append(text.substr(0, open));
    text.remove_prefix(open);
    const size_t close = text.find_first_of("]\n");
    if (close != std::string_view::npos && text[close] == ']') {
      text.remove_prefix(close + 1);
    } else {
      // No bracket of this line closes.
      const size_t rest = std::min(close, text.size());
      kept.append(text.substr(0, rest));
      text.remove_prefix(rest);
    }
  }
  return kept;
}

}  // namespace

ChoiceItem ParseChoiceItem(std::string_view text, const std::string& where) {
  const nlohmann::json json = ParseObject(text, where, "the fields of an item");
  ChoiceItem item;
  item.where = where;
  ReadChoiceForm(json, item);
  if (std::ranges::any_of(item.contexts, [](const std::string& context) { return Strip(context).empty(); }))
    Fail("{}: got an empty context, expected text", where);
  if (std::ranges::any_of(item.endings, [](const std::string& ending) { return Strip(ending).empty(); }))
    Fail("{}: \"endings\": got an empty one, expected text in each", where);
  return item;
}

EncodedChoice EncodeChoice(const ChoiceItem& item, const Tokenizer& tokenizer) {
  EncodedChoice choice;
  EncodedContext context = EncodeContext(item.contexts.front(), item, tokenizer);
  for (size_t e = 0; e < item.endings.size(); ++e) {
    if (e > 0 && item.contexts.size() > 1) context = EncodeContext(item.contexts[e], item, tokenizer);
    choice.endings.push_back(EncodeEnding(context, item.endings[e], item, tokenizer));
  }
  choice.shares_context = std::ranges::all_of(choice.endings, [&](const EncodedChoice::Ending& ending) {
    return ending.first_scored == choice.endings[0].first_scored && SameContext(ending, choice.endings[0]);
  });
  return choice;
}

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

std::string Capitalize(std::string_view text) {
  std::string capitalized;
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const auto letter = static_cast<UChar32>(Next(text, &at));
    Append(static_cast<char32_t>(first ? u_toupper(letter) : u_tolower(letter)), &capitalized);
  }
  return capitalized;
}

std::string PrepareHellaswag(std::string_view text) {
  return Replaced(RemoveBracketed(Replaced(Strip(text), " [title]", ". ")), "  ", " ");
}

std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b) {
  return PrepareHellaswag(std::string(activity).append(": ").append(ctx_a).append(" ").append(Capitalize(ctx_b)));
}

}  // namespace tare
