// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/choice_items.h"

#include <algorithm>
#include <span>

#include <unicode/uchar.h>

#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/base/number.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/file/strict_json.h"

namespace tare {
namespace {

const std::string& StringField(const nlohmann::json& json, const char* key, const std::string& where) {
  const auto field = json.find(key);
  if (field == json.end())
    Fail("{}: got no \"{}\"; expected \"ctx\" or \"activity_label\", \"ctx_a\" and \"ctx_b\"", where, key);
  if (!field->is_string()) Fail("{}: \"{}\": got {}, expected a string", where, key, field->dump());
  return field->get_ref<const std::string&>();
}

std::vector<std::string> Endings(const nlohmann::json& json, const std::string& where) {
  const auto field = json.find("endings");
  if (field == json.end() || !field->is_array() || field->size() < 2) {
    Fail("{}: \"endings\": got {}, expected a list of at least two strings", where,
         field == json.end() ? "none" : field->dump());
  }
  std::vector<std::string> endings;
  for (const nlohmann::json& ending : *field) {
    if (!ending.is_string()) Fail("{}: \"endings\": got {}, expected strings", where, ending.dump());
    endings.push_back(ending.get<std::string>());
  }
  return endings;
}

// HellaSwag's own file has numbers as labels, its mirrors strings of numbers, and the test split none.
int Label(const nlohmann::json& json, size_t endings, const std::string& where) {
  const auto field = json.find("label");
  if (field == json.end()) Fail("{}: got no \"label\"; expected the true ending's index", where);
  int64_t label = -1;
  if (field->is_string()) {
    label = ParseNumber<int64_t>(field->get_ref<const std::string&>()).value_or(-1);
  } else if (field->is_number_integer()) {
    label = field->get<int64_t>();
  }
  if (label < 0 || static_cast<uint64_t>(label) >= endings) {
    Fail("{}: \"label\": got {}, expected 0 to {}, the index of an ending", where, field->dump(), endings - 1);
  }
  return static_cast<int>(label);
}

// Fields that make up the item are no keys.
Json Keys(const nlohmann::json& json) {
  constexpr std::string_view kItself[] = {"ctx", "activity_label", "ctx_a", "ctx_b", "endings", "label"};
  Json keys = Json::object();
  for (const auto& [name, value] : json.items()) {
    if (value.is_primitive() && !value.is_null() && !std::ranges::contains(kItself, name)) keys[name] = value;
  }
  return keys;
}

// The context's tokens end where the context encoded alone would: lm-evaluation-harness's _encode_pair.
EncodedChoice::Ending EncodeEnding(std::string_view context, size_t context_tokens, std::string_view between,
                                   const std::string& ending, const Tokenizer& tokenizer) {
  EncodedChoice::Ending encoded;
  encoded.tokens = tokenizer.Encode(std::string(context).append(between).append(" ").append(ending));
  encoded.first_scored = context_tokens;
  encoded.characters = CountCharacters(ending);
  return encoded;
}

bool SameContext(const EncodedChoice::Ending& a, const EncodedChoice::Ending& b) {
  return std::ranges::equal(std::span(a.tokens).first(a.first_scored), std::span(b.tokens).first(b.first_scored));
}

// str.replace: from left to right, without looking at what was put in.
std::string Replace(std::string_view text, std::string_view from, std::string_view to) {
  std::string replaced;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from)) {
    replaced.append(text.substr(0, at)).append(to);
    text.remove_prefix(at + from.size());
  }
  return replaced.append(text);
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
  const nlohmann::json json = ParseJson(text, where);
  if (!json.is_object())
    Fail("{}: got {}, expected an object with \"ctx\", \"endings\" and \"label\"", where, json.type_name());
  ChoiceItem item;
  item.where = where;
  item.endings = Endings(json, where);
  if (json.contains("activity_label") && json.contains("ctx_a") && json.contains("ctx_b")) {
    item.context = HellaswagContext(StringField(json, "activity_label", where), StringField(json, "ctx_a", where),
                                    StringField(json, "ctx_b", where));
    for (std::string& ending : item.endings) ending = PrepareHellaswag(ending);
  } else {
    item.context = StringField(json, "ctx", where);
  }
  if (Strip(item.context).empty()) Fail("{}: got an empty context, expected text", where);
  if (std::ranges::any_of(item.endings, [](const std::string& ending) { return Strip(ending).empty(); })) {
    Fail("{}: \"endings\": got an empty one, expected text in each", where);
  }
  item.label = Label(json, item.endings.size(), where);
  item.keys = Keys(json);
  return item;
}

std::vector<ChoiceItem> LoadChoiceItems(const std::filesystem::path& path, size_t limit) {
  const MappedFile file(path);
  std::string_view rest = file.text();
  std::vector<ChoiceItem> items;
  for (size_t line = 1; !rest.empty() && (limit == 0 || items.size() < limit); ++line) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
    const std::string where = path.string() + ": line " + std::to_string(line);
    RequireUtf8(text, where);
    if (Strip(text).empty()) continue;
    items.push_back(ParseChoiceItem(text, where));
    items.back().line = line;
  }
  if (items.empty()) Fail("{}: got no items, expected one per line in JSON", path.string());
  return items;
}

EncodedChoice EncodeChoice(const ChoiceItem& item, const Tokenizer& tokenizer) {
  const std::string_view context = StripRight(item.context);
  const std::string_view spaces = std::string_view(item.context).substr(context.size());
  const size_t context_tokens = tokenizer.Encode(context).size();
  if (context_tokens == 0) Fail("{}: got a context without a token, expected text", item.where);

  EncodedChoice choice;
  for (const std::string& ending : item.endings) {
    choice.endings.push_back(EncodeEnding(context, context_tokens, spaces, ending, tokenizer));
    if (choice.endings.back().tokens.size() <= context_tokens) {
      Fail("{}: ending '{}' adds no token to its context, expected at least one to score", item.where, ending);
    }
  }
  choice.shares_context = std::ranges::all_of(
      choice.endings, [&](const EncodedChoice::Ending& ending) { return SameContext(ending, choice.endings[0]); });
  return choice;
}

std::string Capitalize(std::string_view text) {
  std::string capitalized;
  for (bool first = true; !text.empty(); first = false) {
    const char32_t letter = FirstCharacter(text);
    const auto point = static_cast<UChar32>(letter);
    const size_t before = capitalized.size();
    AppendCharacter(letter, &capitalized);
    text.remove_prefix(capitalized.size() - before);
    capitalized.resize(before);
    AppendCharacter(static_cast<char32_t>(first ? u_toupper(point) : u_tolower(point)), &capitalized);
  }
  return capitalized;
}

std::string PrepareHellaswag(std::string_view text) {
  return Replace(RemoveBracketed(Replace(Strip(text), " [title]", ". ")), "  ", " ");
}

std::string HellaswagContext(std::string_view activity, std::string_view ctx_a, std::string_view ctx_b) {
  return PrepareHellaswag(std::string(activity).append(": ").append(ctx_a).append(" ").append(Capitalize(ctx_b)));
}

}  // namespace tare
