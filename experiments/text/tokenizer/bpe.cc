// SPDX-License-Identifier: Apache-2.0
// Pieces and merges, the symbols of a word, merging by heap, cuts of long words, the encoding of words.
#include "experiments/text/tokenizer/subwords.h"

#include <algorithm>
#include <queue>

#include "experiments/text/tokenizer/characters.h"
#include "experiments/text/tokenizer/text_to_words.h"

namespace tare::pipeline {
namespace {

// Words of a text repeat; limits the memory of those kept. Longer ones are cut where that does not change the result.
constexpr size_t kSeenWords = 1 << 16, kSeenBytes = 256;

// The two pieces of "left right" or ["left", "right"], or empty ones.
std::pair<std::string_view, std::string_view> PiecesOf(const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  if (!merge.is_string()) return {};
  const std::string_view text = merge.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == text.npos || text.find(' ', space + 1) != text.npos) return {};
  return {text.substr(0, space), text.substr(space + 1)};
}

uint64_t PairOf(auto left, auto right) {
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
  for (const std::string& mark : {prefix_, suffix_}) {
    if (bytes_ && FromAlphabet(mark) != mark)
      Fail("{}: got ByteLevel with '{}' before or after pieces, expected printable ASCII", where, mark);
  }
  const auto vocabulary = json.find("vocab");
  if (vocabulary == json.end() || !vocabulary->is_object()) Fail("{}: got no vocab, expected an object", where);
  AddPieces(*vocabulary, where + ": vocab");
  const auto merges = json.find("merges");
  if (merges == json.end() || !merges->is_array()) Fail("{}: got no merges, expected a list", where);
  AddMerges(*merges, where + ": merges");
  const auto unknown = GetOr<std::string>(json, "unk_token", "", where);
  if (!unknown.empty()) {
    const std::optional<int32_t> id = names_.Find(unknown);
    if (!id) Fail("{}: unk_token: got '{}', expected a piece of vocab", where, unknown);
    unknown_ = *id;
  }
  byte_ids_ = names_.Bytes();
}

void Bpe::AddPieces(const nlohmann::json& vocabulary, const std::string& where) {
  for (const auto& [name, id] : vocabulary.items()) {
    if (!id.is_number_integer()) Fail("{}: '{}': got {}, expected an id", where, name, id.dump());
    names_.Add(name, id.get<int64_t>(), where);
    if (!bytes_) {
      AddNeighbours(name);
    } else if (const std::optional<std::string> spelled = FromAlphabet(name); spelled && !name.empty()) {
      AddNeighbours(*spelled);
      pieces_.Add(*spelled, id.get<int64_t>(), where);
    }
  }
}

void Bpe::AddMerges(const nlohmann::json& merges, const std::string& where) {
  merges_.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto [left, right] = PiecesOf(merges[rank]);
    if (left.empty() || right.empty()) Fail("{}: {}: got {}, expected two pieces", where, rank, merges[rank].dump());
    const std::string joined = std::string(left).append(right.substr(right.starts_with(prefix_) ? prefix_.size() : 0));
    const std::optional<int32_t> a = names_.Find(left), b = names_.Find(right), c = names_.Find(joined);
    if (!a || !b || !c)
      Fail("{}: {}: got '{}' and '{}', but vocab has no '{}'", where, rank, left, right,
           !a   ? left
           : !b ? right
                : joined);
    merges_[PairOf(*a, *b)] = {static_cast<int32_t>(rank), *c};
  }
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
    if (const std::optional<int32_t> id = pieces().Find(piece)) {
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

void Bpe::MergeSymbols() const {
  struct Candidate {
    int32_t rank, at, id, left, right;
    bool operator>(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](int32_t at) {
    const int32_t next = symbols_[static_cast<size_t>(at)].next;
    if (next < 0) return;
    const int32_t left = symbols_[static_cast<size_t>(at)].id, right = symbols_[static_cast<size_t>(next)].id;
    if (const auto merge = merges_.find(PairOf(left, right)); merge != merges_.end())
      queue.push({merge->second.rank, at, merge->second.id, left, right});
  };
  for (size_t at = 0; at < symbols_.size(); ++at) offer(static_cast<int32_t>(at));
  while (!queue.empty()) {
    ThrowIfStopped();  // the word may be a whole text
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
    if (!first) neighbours_.insert(PairOf(last, c));
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
    const bool is_known = pieces().Find(word.substr(begin, at - begin)).has_value();
    // Unknown characters may join each other, or come as bytes of which Tare knows no neighbours.
    if (begin > from && known && is_known && !neighbours_.contains(PairOf(last, c))) return begin;
    last = c;
    known = is_known;
  }
  return word.size();
}

void Bpe::MergeWord(std::string_view word, std::vector<int32_t>* ids) const {
  const bool keeps = word.size() <= kSeenBytes;
  if (const auto found = keeps ? seen_.find(word) : seen_.end(); found != seen_.end())
    return static_cast<void>(ids->insert(ids->end(), found->second.begin(), found->second.end()));
  Begin(word);
  MergeSymbols();
  const size_t before = ids->size();
  for (const Symbol& symbol : symbols_) ids->push_back(symbol.id);
  if (keeps && seen_.size() < kSeenWords)
    seen_.emplace(word, std::vector<int32_t>(ids->begin() + static_cast<std::ptrdiff_t>(before), ids->end()));
}

void Bpe::Encode(std::string_view word, std::vector<int32_t>* ids) const {
  if (const std::optional<int32_t> whole = ignore_merges_ ? pieces().Find(word) : std::nullopt) {
    ids->push_back(*whole);
    return;
  }
  const bool cuts = word.size() > kSeenBytes && prefix_.empty() && suffix_.empty();
  for (size_t begin = 0; begin < word.size();) {
    ThrowIfStopped();  // a text may be one word
    const size_t end = cuts ? FindCut(word, begin) : word.size();
    const std::string_view part = word.substr(begin, end - begin);
    MergeWord(part, ids);
    begin = end;
  }
}

}  // namespace tare::pipeline
