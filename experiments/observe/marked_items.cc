// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/marked_items.h"

#include <algorithm>
#include <string_view>

#include "experiments/tasks/items/choice_items.h"
#include "quant/base/error.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

// How many of the context's tokens cover the text before `end`. A mark on a word covers only the word, because spaces
// at the end are not encoded.
int64_t TokensBefore(size_t end, const ChoiceItem& item, const EncodedChoice::Ending& whole,
                     const Tokenizer& tokenizer) {
  std::string_view text = std::string_view(item.Context(static_cast<size_t>(item.label))).substr(0, end);
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  const std::vector<int32_t> tokens = tokenizer.Encode(text);
  if (tokens.size() > whole.first_scored || !std::ranges::equal(tokens, std::span(whole.tokens).first(tokens.size())))
    Fail("{}: the true ending '{}' does not occur in the context as whole tokens", item.where,
         item.endings[static_cast<size_t>(item.label)]);
  return static_cast<int64_t>(tokens.size());
}

Marks MarksOf(const ChoiceItem& item, const EncodedChoice::Ending& whole, const Tokenizer& tokenizer) {
  const std::string& answer = item.endings[static_cast<size_t>(item.label)];
  const std::string& text = item.Context(static_cast<size_t>(item.label));
  const int64_t bos = tokenizer.bos() ? 1 : 0, context = bos + static_cast<int64_t>(whole.first_scored);
  Marks marks{.answer = {}, .noise = {}, .queries = {context - 1, bos + std::ssize(whole.tokens) - 1}};
  for (size_t at = text.find(answer); at != std::string::npos; at = text.find(answer, at + answer.size())) {
    marks.answer.push_back({bos + TokensBefore(at, item, whole, tokenizer),
                            bos + TokensBefore(at + answer.size(), item, whole, tokenizer)});
  }
  if (marks.answer.empty())
    Fail("{}: the true ending '{}' does not occur in the context; expected items whose answer does, such as needles",
         item.where, answer);
  marks.noise = Between(marks.answer, bos, context);
  return marks;
}

}  // namespace

MarkedItems LoadMarkedItems(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                            const ModelConfig& config, size_t limit, TakeFrom from) {
  const Tokenizer tokenizer = Tokenizer::Load(model_folder);
  MarkedItems items{.input = {.kind = TokenInput::Kind::kText,
                              .sequences = {},
                              .bos = tokenizer.bos(),
                              .path = path,
                              .sha256 = Sha256OfFile(path)},
                    .sequences = {},
                    .spans = {}};
  std::map<int64_t, Marks> marks;
  for (const ChoiceItem& item : LoadChoiceItems(path, limit, from)) {
    const EncodedChoice encoded = EncodeChoice(item, tokenizer);
    const EncodedChoice::Ending& whole = encoded.endings[static_cast<size_t>(item.label)];
    marks[std::ssize(items.sequences)] = MarksOf(item, whole, tokenizer);
    std::vector<int32_t>& tokens = items.sequences.emplace_back().tokens;
    if (tokenizer.bos()) tokens.push_back(*tokenizer.bos());
    tokens.insert(tokens.end(), whole.tokens.begin(), whole.tokens.end());
    if (std::ssize(tokens) > config.max_positions)
      Fail("{}: got {} tokens with the true ending, expected at most max_position_embeddings {}", item.where,
           tokens.size(), config.max_positions);
  }
  items.spans = MarkedSpans(std::move(marks), items.input.sha256);
  return items;
}

}  // namespace tare
