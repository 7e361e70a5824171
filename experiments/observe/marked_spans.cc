// SPDX-License-Identifier: Apache-2.0
// Marks from JSON lines and from items with their answer in the context, MarkedSpans, sums over ranges, marked items.
#include "experiments/observe/statistics_job.h"

#include <algorithm>
#include <cmath>

#include "experiments/tasks/items/lines.h"
#include "quant/base/find_in.h"
#include "quant/base/message.h"
#include "quant/file/sha256.h"

namespace tare {
namespace {

int64_t Whole(const nlohmann::json& value, const std::string& where) {
  if (!value.is_number_integer()) Fail("{}: got {}, expected a whole number", where, value.dump());
  return value.get<int64_t>();
}

TokenRange RangeOf(const nlohmann::json& value, int64_t length, const std::string& where) {
  if (!value.is_array() || value.size() != 2) Fail("{}: got {}, expected [begin, end]", where, value.dump());
  const TokenRange range{Whole(value[0], where), Whole(value[1], where)};
  if (range.begin < 0 || range.begin >= range.end || range.end > length)
    Fail("{}: got [{}, {}], expected a range within the sequence's {} positions", where, range.begin, range.end,
         length);
  return range;
}

std::vector<TokenRange> RangesOf(const nlohmann::json& value, int64_t length, const std::string& where) {
  if (!value.is_array() || value.empty()) Fail("{}: got {}, expected [[begin, end], ...]", where, value.dump());
  std::vector<TokenRange> ranges;
  for (const nlohmann::json& range : value) ranges.push_back(RangeOf(range, length, where));
  std::ranges::sort(ranges, {}, &TokenRange::begin);
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin < ranges[i - 1].end) Fail("{}: the ranges overlap at {}", where, ranges[i].begin);
  }
  return ranges;
}

Marks MarksOf(const nlohmann::json& line, int64_t length, const std::string& where) {
  for (const auto& [key, value] : line.items()) {
    if (key != "sequence" && key != "answer" && key != "noise" && key != "queries")
      Fail("{}: got the key '{}', expected sequence, answer, noise and queries", where, key);
  }
  if (!line.contains("answer")) Fail("{}: answer: missing, expected [[begin, end], ...]", where);
  Marks marks;
  marks.answer = RangesOf(line["answer"], length, where + ": answer");
  marks.queries =
      line.contains("queries") ? RangeOf(line["queries"], length, where + ": queries") : TokenRange{length - 1, length};
  marks.noise = line.contains("noise") ? RangesOf(line["noise"], length, where + ": noise")
                                       : Between(marks.answer, 1, marks.queries.begin);
  return marks;
}

// The context's tokens before text offset `end`. Trailing spaces are not encoded: a marked word has only its tokens.
int64_t TokensBefore(size_t end, const ChoiceItem& item, const EncodedChoice::Ending& whole,
                     const Tokenizer& tokenizer) {
  std::string_view text = std::string_view(item.Context(static_cast<size_t>(item.label))).substr(0, end);
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  const std::vector<int32_t> tokens = tokenizer.EncodeAfterBos(text);
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
  for (size_t at = text.find(answer); at != std::string::npos; at = text.find(answer, at + answer.size()))
    marks.answer.push_back({bos + TokensBefore(at, item, whole, tokenizer),
                            bos + TokensBefore(at + answer.size(), item, whole, tokenizer)});
  if (marks.answer.empty())
    Fail("{}: the true ending '{}' does not occur in the context; expected items whose answer does, such as needles",
         item.where, answer);
  marks.noise = Between(marks.answer, bos, context);
  return marks;
}

}  // namespace

MarkedSpans MarkedSpans::Load(const std::filesystem::path& path, std::span<const int64_t> lengths) {
  MarkedSpans spans;
  spans.sha256 = Sha256OfFile(path);
  ForEachLine(path, 0, TakeFrom::kStart, [&](const JsonLine& of) {
    const std::string& where = of.where;
    const nlohmann::json line = ParseObject(of.text, where, "sequence and answer");
    if (!line.contains("sequence")) Fail("{}: sequence: missing, expected its number", where);
    const int64_t sequence = Whole(line["sequence"], where + ": sequence");
    if (sequence < 0 || sequence >= std::ssize(lengths))
      Fail("{}: sequence: got {}, expected 0 to {}", where, sequence, std::ssize(lengths) - 1);
    if (!spans.marks.emplace(sequence, MarksOf(line, lengths[static_cast<size_t>(sequence)], where)).second)
      Fail("{}: sequence: got {} twice, expected each once", where, sequence);
  });
  return spans;
}

const Marks* MarkedSpans::Find(int64_t sequence) const { return FindIn(marks, sequence); }

std::vector<TokenRange> Between(const std::vector<TokenRange>& ranges, int64_t begin, int64_t end) {
  std::vector<TokenRange> between;
  for (const TokenRange& range : ranges) {
    if (begin < std::min(range.begin, end)) between.push_back({begin, std::min(range.begin, end)});
    begin = std::max(begin, range.end);
  }
  if (begin < end) between.push_back({begin, end});
  return between;
}

double MassOf(std::span<const float> row, std::span<const TokenRange> ranges, int64_t first) {
  double mass = 0.0;
  for (const TokenRange& range : ranges) {
    for (int64_t i = std::max(range.begin, first); i < std::min<int64_t>(range.end, first + std::ssize(row)); ++i)
      mass += std::fabs(row[static_cast<size_t>(i - first)]);
  }
  return mass;
}

MarkedItems LoadMarkedItems(const std::filesystem::path& path, const std::filesystem::path& model_folder,
                            const ModelConfig& config, size_t limit, TakeFrom from) {
  const Tokenizer tokenizer = Tokenizer::Load(model_folder);
  MarkedItems items{
      .input = {.kind = TokenInput::Kind::kText, .bos = tokenizer.bos(), .path = path, .sha256 = Sha256OfFile(path)}};
  std::map<int64_t, Marks> marks;
  for (const ChoiceItem& item : LoadLines<ParseChoiceItem>(path, limit, from)) {
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
  items.spans = {std::move(marks), items.input.sha256};
  return items;
}

}  // namespace tare
