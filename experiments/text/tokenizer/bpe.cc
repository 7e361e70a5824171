// SPDX-License-Identifier: Apache-2.0
#include "experiments/text/tokenizer/bpe.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "experiments/text/tokenizer/byte_level.h"
#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/steps.h"

namespace tare::pipeline {
namespace {

// In words up to this length, the best pair is searched again after every merge, which is faster than the heap used for
// longer ones.
constexpr size_t kShortSymbols = 48;
// Words of a text repeat; limits the memory of those kept.
constexpr size_t kSeenWords = 1 << 16, kSeenBytes = 256;

uint64_t Key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

char32_t Bpe::NextSymbol(std::string_view text, size_t* at) const {
  return bytes_ ? static_cast<unsigned char>(text[(*at)++]) : Next(text, at);
}

Bpe::Bpe(const nlohmann::json& json, WordsOf words, const std::string& where)
    : bytes_(words == WordsOf::kBytes),
      prefix_(GetOr<std::string>(json, "continuing_subword_prefix", "", where)),
      suffix_(GetOr<std::string>(json, "end_of_word_suffix", "", where)),
      byte_fallback_(GetOr(json, "byte_fallback", false, where)),
      fuse_unknown_(GetOr(json, "fuse_unk", false, where)),
      ignore_merges_(GetOr(json, "ignore_merges", false, where)) {
  if (GetOr(json, "dropout", 0.0, where) != 0.0)
    Fail("{}: dropout: got {}, expected none", where, json["dropout"].dump());
  if (bytes_ && (!prefix_.empty() || !suffix_.empty()))
    Fail("{}: got ByteLevel with a prefix or suffix of pieces, expected none", where);
  const auto vocabulary = json.find("vocab");
  if (vocabulary == json.end() || !vocabulary->is_object()) Fail("{}: got no vocab, expected an object", where);
  for (const auto& [piece, id] : vocabulary->items()) {
    if (!id.is_number_integer()) Fail("{}: vocab: '{}': got {}, expected an id", where, piece, id.dump());
    names_.Add(piece, id.get<int64_t>(), where + ": vocab");
    const std::optional<std::string> spelled = bytes_ ? FromAlphabet(piece) : piece;
    if (!spelled) continue;
    pieces_.Add(*spelled, id.get<int64_t>(), where + ": vocab");
    AddNeighbours(*spelled);
  }
  const auto merges = json.find("merges");
  if (merges == json.end() || !merges->is_array()) Fail("{}: got no merges, expected a list", where);
  merges_.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) AddMerge((*merges)[rank], static_cast<int32_t>(rank), where);
  const auto unknown = GetOr<std::string>(json, "unk_token", "", where);
  if (!unknown.empty()) {
    const std::optional<int32_t> id = names_.Find(unknown);
    if (!id) Fail("{}: unk_token: got '{}', expected a piece of vocab", where, unknown);
    unknown_ = *id;
  }
  byte_ids_ = names_.Bytes();
}

// "left right", or ["left", "right"].
void Bpe::AddMerge(const nlohmann::json& merge, int32_t rank, const std::string& where) {
  std::string left, right;
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos)
      left = text.substr(0, space), right = text.substr(space + 1);
  } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    left = merge[0], right = merge[1];
  }
  if (left.empty() || right.empty()) Fail("{}: merges: {}: got {}, expected two pieces", where, rank, merge.dump());
  const std::string joined = left + (right.starts_with(prefix_) ? right.substr(prefix_.size()) : right);
  const std::optional<int32_t> a = names_.Find(left), b = names_.Find(right), c = names_.Find(joined);
  if (!a || !b || !c)
    Fail("{}: merges: {}: got '{}' and '{}', but vocab has no '{}'", where, rank, left, right,
         !a   ? left
         : !b ? right
              : joined);
  merges_[Key(*a, *b)] = {rank, *c};  // of the same pair twice, the last counts
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  const auto found = merges_.find(Key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::Begin(std::string_view word) const {
  symbols_.clear();
  const auto add = [&](int32_t id) {
    const auto at = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({id, at - 1, at + 1});
  };
  bool pending = false;  // an unknown piece that the next may join
  std::string spelled;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    NextSymbol(word, &at);
    std::string_view piece = word.substr(begin, at - begin);
    if ((begin > 0 && !prefix_.empty()) || (at == word.size() && !suffix_.empty())) {
      spelled = (begin > 0 ? prefix_ : "") + std::string(piece) + (at == word.size() ? suffix_ : "");
      piece = spelled;
    }
    if (const std::optional<int32_t> id = pieces_.Find(piece)) {
      if (pending) add(unknown_);
      pending = false;
      add(*id);
      continue;
    }
    const auto known = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; };
    if (byte_fallback_ && std::ranges::all_of(piece, known)) {  // before a pending one, as the library has it
      for (const char c : piece) add(byte_ids_[static_cast<unsigned char>(c)]);
      continue;
    }
    if (unknown_ < 0) continue;
    if (pending && !fuse_unknown_) add(unknown_);
    pending = true;
  }
  if (pending) add(unknown_);
  if (!symbols_.empty()) symbols_.back().next = -1;
}

void Bpe::MergeShort() const {
  for (;;) {
    size_t best = 0;
    Merge found{std::numeric_limits<int32_t>::max(), 0};
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) {
      const Merge* const merge = FindMerge(symbols_[i].id, symbols_[i + 1].id);
      if (merge != nullptr && merge->rank < found.rank) best = i, found = *merge;
    }
    if (found.rank == std::numeric_limits<int32_t>::max()) return;
    symbols_[best].id = found.id;
    symbols_.erase(symbols_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

void Bpe::MergeLong() const {
  struct Candidate {
    int32_t rank, at, id, left, right;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int32_t at) {
    const int32_t next = symbols_[static_cast<size_t>(at)].next;
    if (next < 0) return;
    const int32_t left = symbols_[static_cast<size_t>(at)].id, right = symbols_[static_cast<size_t>(next)].id;
    if (const Merge* const merge = FindMerge(left, right)) queue.push({merge->rank, at, merge->id, left, right});
  };
  for (size_t at = 0; at < symbols_.size(); ++at) offer(static_cast<int32_t>(at));
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol& left = symbols_[static_cast<size_t>(c.at)];
    if (left.id != c.left || left.next < 0 || symbols_[static_cast<size_t>(left.next)].id != c.right) continue;  // gone
    Symbol& right = symbols_[static_cast<size_t>(left.next)];
    left.id = c.id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols_[static_cast<size_t>(left.next)].previous = c.at;
    offer(c.at);
    if (left.previous >= 0) offer(left.previous);
  }
  std::erase_if(symbols_, [](const Symbol& symbol) { return symbol.id < 0; });
}

void Bpe::AddNeighbours(std::string_view piece) {
  char32_t last = 0;
  for (size_t at = 0; at < piece.size();) {
    const bool first = at == 0;
    const char32_t c = NextSymbol(piece, &at);
    if (!first) neighbours_.insert(Key(static_cast<int32_t>(last), static_cast<int32_t>(c)));
    last = c;
  }
}

size_t Bpe::FindCut(std::string_view word, size_t from) const {
  size_t begin = 0;
  bool known = false;
  char32_t last = 0;
  for (size_t at = from; at < word.size();) {
    begin = at;
    const char32_t c = NextSymbol(word, &at);
    const bool is_known = pieces_.Find(word.substr(begin, at - begin)).has_value();
    // Unknown characters may join each other, or come as bytes of which Tare knows no neighbours.
    if (begin > from && known && is_known &&
        !neighbours_.contains(Key(static_cast<int32_t>(last), static_cast<int32_t>(c))))
      return begin;
    last = c;
    known = is_known;
  }
  return word.size();
}

void Bpe::EncodePart(std::string_view part, std::vector<int32_t>* ids) const {
  const bool keeps = part.size() <= kSeenBytes;
  if (const auto found = keeps ? seen_.find(part) : seen_.end(); found != seen_.end())
    return static_cast<void>(ids->insert(ids->end(), found->second.begin(), found->second.end()));
  Begin(part);
  symbols_.size() <= kShortSymbols ? MergeShort() : MergeLong();
  const size_t before = ids->size();
  for (const Symbol& symbol : symbols_) ids->push_back(symbol.id);
  if (keeps && seen_.size() < kSeenWords)
    seen_.emplace(part, std::vector<int32_t>(ids->begin() + static_cast<std::ptrdiff_t>(before), ids->end()));
}

void Bpe::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  if (ignore_merges_) {
    if (const std::optional<int32_t> whole = pieces_.Find(word)) return ids->push_back(*whole);
  }
  const bool whole = word.size() <= kShortSymbols || !prefix_.empty() || !suffix_.empty();
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = whole ? word.size() : FindCut(word, begin);
    EncodePart(word.substr(begin, end - begin), ids);
    begin = end;
  }
}

}  // namespace tare::pipeline
