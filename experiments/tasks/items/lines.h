// SPDX-License-Identifier: Apache-2.0
// Files of JSON lines, and the fields of one line, also of lm-evaluation-harness's logs, with messages that name file
// and line; multiple-choice items and continuations (choice_items.cc), and prompts to be answered (prompt_items.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
#include "experiments/text/tokenizer/tokenizer.h"
#include "quant/file/json.h"

namespace tare {

struct ChoiceItem;

struct JsonLine {
  std::string_view text;
  std::string where;  // file and line, for messages
  size_t number = 0;  // from 1
};

// Places of `limit` of n items (0: all), rising: the first; or spread, one drawn from each of as many equal parts,
// because files often repeat an order, of which even distances would take one kind.
std::vector<size_t> TakenPlaces(size_t n, size_t limit, TakeFrom from);

// `limit` lines that are not whitespace. Throws Error for text that is not UTF-8, and without such a line.
void ForEachLine(const std::filesystem::path& path, size_t limit, TakeFrom from,
                 const std::function<void(const JsonLine&)>& body);

// Every such line as an item, kParse(text, where, given...), which gets its line's number.
template <auto kParse>
auto LoadLines(const std::filesystem::path& path, size_t limit = 0, TakeFrom from = TakeFrom::kStart, auto&... given) {
  std::vector<decltype(kParse({}, {}, given...))> items;
  ForEachLine(path, limit, from, [&](const JsonLine& line) {
    items.push_back(kParse(line.text, line.where, given...));
    items.back().line = line.number;
  });
  return items;
}

// An object. Throws Error for anything else; `expected` says with what fields.
nlohmann::json ParseObject(std::string_view text, const std::string& where, const char* expected);

bool HasFields(const nlohmann::json& json, std::initializer_list<const char*> fields);

// Throw Error if the field is missing or of another type.
const std::string& StringField(const nlohmann::json& json, const char* key, const std::string& where);
std::vector<std::string> StringsField(const nlohmann::json& json, const char* key, const std::string& where);
// 0 to count - 1, as a number or as a string of one.
int IndexField(const nlohmann::json& json, const char* key, size_t count, const std::string& where);

// What an item can be grouped by: the fields that are a number, a string or a boolean, less those of `itself`.
Json KeysOf(const nlohmann::json& json, std::initializer_list<const char*> itself);

// samples_<task>_<date>.jsonl of lm-evaluation-harness --log_samples (loggers/evaluation_tracker.py): every request in
// full, {"gen_args_0": {"arg_0": context, "arg_1": continuation}, ...}, or lists of lists in older versions.

bool IsHarnessLog(const nlohmann::json& json);

// Each request's {context, continuation} or {text}. Throws Error for other lists than of strings, at least one each.
std::vector<std::vector<std::string>> LoggedArguments(const nlohmann::json& json, const std::string& where);

// A generating task's one request: its context, and the generation's arguments, an object. Throws Error for others.
struct LoggedRequest {
  std::string prompt;
  nlohmann::json arguments;
};
LoggedRequest LoggedGeneration(const nlohmann::json& json, const std::string& where);

// A number as Python writes it: also "0.5", and "True" as 1. Empty for anything else.
std::optional<double> LoggedNumber(const nlohmann::json& json);

// Endings' log-likelihoods, and whether decoding picks them: [["-8.17", "False"], ..]. Empty if one is missing or NaN.
struct LoggedScore {
  double log_likelihood = 0;  // nats
  bool greedy = false;
};
std::vector<LoggedScore> LoggedScores(const nlohmann::json& json, size_t endings);

// Sets an item from a multiple-choice line, as ParseChoiceItem. Endings are the continuations, without the leading
// space if all have one: the harness divides by these characters. The true one is "target", an index or ending, as far
// as the logged answer and its "acc" agree; where contexts differ only those two tell. acc_mutual_info's requests
// without context are left out. Throws Error if no answer or several remain.
void ReadLoggedChoice(const nlohmann::json& json, ChoiceItem& item);

// "doc_id", and the document's fields that are numbers, booleans, or strings of at most 64 bytes.
Json LoggedKeys(const nlohmann::json& json);

// Multiple-choice items and continuations, as JSON lines, and their tokens, all as in lm-evaluation-harness.
//
//   {"ctx": "...", "endings": ["...", ...], "label": 0}      taken as written
//
// Lines that the harness logged (above) and those of the data sets of its common tasks
// (`datasets.load_dataset(...).to_json(FILE)`) are told by their fields, the latter in the harness's words
// (lm_eval/tasks/<task> at its commit 4e7e0d4; zero-shot):
//
//   hellaswag           activity_label, ctx_a, ctx_b, endings, label    "ACTIVITY: CTX_A Ctx_b" (HellaswagContext)
//   arc_easy, _challenge  question, choices {text, label}, answerKey    "Question: QUESTION\nAnswer:"
//   openbookqa          question_stem, choices {text, label}, answerKey "QUESTION_STEM"
//   mmlu_*              question, subject, choices, answer              the subject's description, the question, four
//                                                                       choices by letter, "Answer:"
//   piqa                goal, sol1, sol2, label                         "Question: GOAL\nAnswer:"
//   winogrande          sentence, option1, option2, answer              the sentence up to each option, and its rest
//   boolq               passage, question, label or answer              "PASSAGE\nQuestion: QUESTION?\nAnswer:" no, yes
//
// Where contexts differ and endings do not (winogrande), acc_norm is acc: the harness reports none.
//
// All other fields that are a number, a string or a boolean are the item's keys ("depth", "length",
// "shots"): they are stored in its record, and accuracies can be grouped by them (tasks/evaluation.h).
struct ChoiceItem {
  std::vector<std::string> contexts;  // one for all endings, or one for each
  std::vector<std::string> endings;
  std::string between = " ";  // context and ending
  int label = 0;              // the true ending
  Json keys = Json::object();
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages

  const std::string& Context(size_t ending) const { return contexts[contexts.size() == 1 ? 0 : ending]; }
};

// Parses one line of a file (LoadLines). Throws Error, starting with `where`.
ChoiceItem ParseChoiceItem(std::string_view json, const std::string& where);

// Continuations, one per JSON line, as lm-evaluation-harness asks for them (output_type: loglikelihood):
//
//   {"context": "...", "continuation": " ..."}     scored right after the context, without a space of ours; or a list
//   {"text": "..."}                                LAMBADA's lines: the last word, and the space before it
//   lines that the harness logged                  (above)
//
// An item with an ending for each continuation; errors as in ParseChoiceItem.
ChoiceItem ParseContinuation(std::string_view json, const std::string& where);

// Context and ending are encoded together, without `<s>`, and split where the context encoded alone ends; whitespace at
// the end of the context is first moved to the ending. The tokens before the split may differ between endings of one
// item. After an empty context, `<s>` alone predicts the ending.
struct EncodedChoice {
  struct Ending {
    std::vector<int32_t> tokens;  // context and ending
    size_t first_scored = 0;      // tokens[first_scored ..] are the ending; at least one
    size_t characters = 0;        // code points of the ending as written, the divisor of acc_norm
  };
  std::vector<Ending> endings;
  bool shares_context = false;  // all endings have the same tokens before first_scored
};

// Throws Error for a context or an ending without a token, and for an empty context of a tokenizer without `<s>`.
EncodedChoice EncodeChoice(const ChoiceItem& item, const Tokenizer& tokenizer);

// HellaSwag's texts as lm-evaluation-harness prepares them (lm_eval/tasks/hellaswag/utils.py): WikiHow's artifacts in
// brackets are removed; activity, previous sentences and the beginning of the last one form the context.
//
// Letters change case one to one, by Unicode's simple mappings. Python's capitalize() differs for Greek's final sigma,
// capitals of several letters or title form (ligatures, German sharp s, digraphs), and Georgian, none of it English.

// The harness's preprocess(): strips, " [title]" to ". ", removes bracketed text in a line, two spaces to one.
std::string PrepareHellaswag(std::string_view text);

// preprocess(activity + ": " + ctx_a + " " + ctx_b.capitalize())
std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b);

// Python's str.capitalize(): the first letter upper-case, the others lower-case.
std::string Capitalize(std::string_view text);

// Prompts to be answered by generated text, one per JSON line, and how good an answer is:
//
//   {"prompt": "...", "targets": ["...", ...]}      taken as written; and, if wanted,
//     "messages": [...]                             instead of the prompt: as the chat template writes them (text/chat)
//     "stop": ["\n", ...]                           the answer ends before the first of these texts
//     "max_tokens": 32, "temperature": 0.7, "top_p": 0.9
//     "score": "exact", "contains", "all" or "number"    what counts as right (AnswerScores); exact if absent
//   lines that lm-evaluation-harness logged of a task with output_type: generate_until (above)
//
// A logged line's arguments say the same: until, max_gen_toks (256 if absent), do_sample, temperature, top_p. Targets
// are "target", a text or list; one with "#### " (GSM8K) is scored as a number. Of a line per filter, the first counts.
//
// All other fields that are a number, a string or a boolean are keys, as of multiple choice.
enum class AnswerScore { kExact, kContains, kAll, kNumber };

struct PromptItem {
  std::string prompt;                // of a chat, its messages in JSON
  Json chat;                         // or null
  std::vector<std::string> targets;  // at least one, none blank
  std::vector<std::string> stops;    // none empty
  std::optional<int64_t> tokens;     // at most
  std::optional<double> temperature, top_p;
  AnswerScore score = AnswerScore::kExact;
  Json keys = Json::object();
  size_t line = 0;    // in its file, from 1
  std::string where;  // file and line, for messages
};

// `limit` items, 0: all (TakenPlaces). Throws Error with file and line.
std::vector<PromptItem> LoadPrompts(const std::filesystem::path& path, size_t limit, TakeFrom from);
PromptItem ParsePrompt(std::string_view json, const std::string& where);

// How good a generated answer is, each the best over its targets:
//
//   exact      the same words: in lower case, without ASCII punctuation, without the words a, an and the (SQuAD's
//              normalisation; its articles are words between spaces here)
//   contains   the target occurs in the answer, in any case (RULER's string_match_part)
//   recall     the share of targets that occur (RULER's string_match_all)
//   f1         of the words of answer and target, normalised as for exact (SQuAD): 2 c / (a + t) for c common ones
//   number     the last number of the answer is the target's last, by value: as GSM8K's flexible-extract of
//              lm-evaluation-harness finds numbers ("(-?[$0-9.,]{2,})|(-?[0-9]+)"), but a match needs a digit, and 18
//              is 18.0
struct AnswerScores {
  bool exact = false, contains = false, number = false;
  double recall = 0, f1 = 0;

  bool Right(AnswerScore score) const;  // by what the item declares; `all`: every target occurs
};
AnswerScores ScoreAnswer(std::string_view answer, const std::vector<std::string>& targets);

std::vector<std::string> NormalWords(std::string_view text);  // SQuAD's words of a text
double WordF1(const std::vector<std::string>& answer, const std::vector<std::string>& target);
// The text's last number in one spelling: "-1234.5" of "-$1,234.50"; none without, or of what is no number ("1.2.3").
std::optional<std::string> LastNumber(std::string_view text);

}  // namespace tare
