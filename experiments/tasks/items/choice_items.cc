// SPDX-License-Identifier: Apache-2.0
#include "experiments/tasks/items/choice_items.h"

#include <algorithm>
#include <span>

#include "experiments/tasks/items/choice_forms.h"
#include "experiments/tasks/items/lines.h"
#include "experiments/text/utf8.h"
#include "quant/base/error.h"
#include "quant/file/json.h"

namespace tare {
namespace {

// A context without the whitespace at its end, which goes before the ending: lm-evaluation-harness's _encode_pair.
struct EncodedContext {
  std::string_view text, spaces;
  size_t tokens;
};

EncodedContext EncodeContext(const std::string& context, const ChoiceItem& item, const Tokenizer& tokenizer) {
  const std::string_view text = StripRight(context);
  const size_t tokens = tokenizer.Encode(text).size();
  if (context.empty() && !tokenizer.bos())
    Fail("{}: got an empty context and a tokenizer without <s>, expected text", item.where);
  if (!context.empty() && tokens == 0) Fail("{}: got a context without a token, expected text", item.where);
  return {text, std::string_view(context).substr(text.size()), tokens};
}

EncodedChoice::Ending EncodeEnding(const EncodedContext& context, const std::string& ending, const ChoiceItem& item,
                                   const Tokenizer& tokenizer) {
  EncodedChoice::Ending encoded;
  encoded.tokens =
      tokenizer.Encode(std::string(context.text).append(context.spaces).append(item.between).append(ending));
  encoded.first_scored = context.tokens;
  encoded.characters = CountCharacters(ending);
  if (encoded.tokens.size() <= context.tokens)
    Fail("{}: ending '{}' adds no token to its context, expected at least one to score", item.where, ending);
  return encoded;
}

bool SameContext(const EncodedChoice::Ending& a, const EncodedChoice::Ending& b) {
  return std::ranges::equal(std::span(a.tokens).first(a.first_scored), std::span(b.tokens).first(b.first_scored));
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

std::vector<ChoiceItem> LoadChoiceItems(const std::filesystem::path& path, size_t limit, TakeFrom from) {
  return LoadLines(path, limit, from, ParseChoiceItem);
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

}  // namespace tare
