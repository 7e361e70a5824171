// SPDX-License-Identifier: Apache-2.0
// Files of JSON lines, and the fields of one line, also of lm-evaluation-harness's logs, with messages that name file
// and line.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/passes/sequences.h"
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

// That many lines of a file that are not whitespace. Throws Error for text that is not UTF-8, and if there is no such
// line.
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

// Lines of the samples_<task>_<date>.jsonl that lm-evaluation-harness writes with --log_samples (its
// loggers/evaluation_tracker.py): every request in full, whatever the task, its template and its examples. Requests are
// {"gen_args_0": {"arg_0": context, "arg_1": continuation}, ...}, or lists of lists in older versions.

bool IsHarnessLog(const nlohmann::json& json);

// The arguments of each request: {context, continuation}, or {text}. Throws Error if they are not lists of as many
// strings, at least one.
std::vector<std::vector<std::string>> LoggedArguments(const nlohmann::json& json, const std::string& where);

// The one request of a task that generates answers: its context, and the arguments of the generation, an object. Throws
// Error for anything else.
struct LoggedRequest {
  std::string prompt;
  nlohmann::json arguments;
};
LoggedRequest LoggedGeneration(const nlohmann::json& json, const std::string& where);

// A number as Python writes it: also "0.5", and "True" as 1. Empty for anything else.
std::optional<double> LoggedNumber(const nlohmann::json& json);

// The log-likelihoods of the endings, and whether decoding would choose them: [["-8.17", "False"], ..]. Empty where one
// is missing or NaN.
struct LoggedScore {
  double log_likelihood = 0;  // nats
  bool greedy = false;
};
std::vector<LoggedScore> LoggedScores(const nlohmann::json& json, size_t endings);

// A line of a multiple-choice task: sets the item's fields as ParseChoiceItem does. Endings are the continuations
// without the space in front, if all have one: what the harness divides by the characters of. The true one is the
// "target", an index or an ending, as far as it agrees with the logged answer and its "acc"; where contexts differ the
// target does not tell, and those two do. Requests without a context, which acc_mutual_info adds, are left out. Throws
// Error if that leaves no answer or several.
void ReadLoggedChoice(const nlohmann::json& json, ChoiceItem& item);

// "doc_id", and the document's fields that are numbers, booleans, or strings of at most 64 bytes.
Json LoggedKeys(const nlohmann::json& json);

}  // namespace tare
