// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/tokenizers.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace tare::attack {
namespace {

using Json = nlohmann::json;

// Texts, pieces and patterns are made of these.
const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces{"",
                                               "a",
                                               "b",
                                               "ab",
                                               " ",
                                               "  ",
                                               "\n",
                                               "\t",
                                               "1",
                                               "'s",
                                               "!",
                                               "A",
                                               "aa",
                                               "<unk>",
                                               "</s>",
                                               "<0x41>",
                                               "<0xFF>",
                                               "<0xzz>",
                                               std::string(1, '\0'),
                                               "\xc3\xa9",
                                               "e\xcc\x81",
                                               "\xc4\xb0",
                                               "\xc3\x9f",
                                               "\xe2\x96\x81",
                                               "\xe2\x96\x81t",
                                               "\xef\xb7\xba",
                                               "\xef\xbf\xbd",
                                               "\xf0\x9f\x98\x80",
                                               "\xe2\x80\x8d",
                                               "\xea\xb0\x81",
                                               "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8",
                                               "\xc4\xa0",
                                               "\xc4\x8a",
                                               "\xf4\x8f\xbf\xbf",
                                               "$1",
                                               "\\1",
                                               "$0"};
  return pieces;
}

std::string Repeated(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

std::string Short(Random& random) {
  std::string text;
  for (size_t n = random.Below(4); n > 0; --n) text += random.Of(Pieces());
  return random.OneIn(20) ? Repeated(text, 3000) : text;
}

Json Number(Random& random) {
  static const std::vector<Json> numbers{0,          1,
                                         2,          3,
                                         7,          -1,
                                         2147483647, 2147483648,
                                         4294967296, 4294967297,
                                         1000000000, 0.5,
                                         1e300,      -1e9,
                                         "1",        nullptr,
                                         true,       18446744073709551615u,
                                         INT64_MIN,  Json::array({1})};
  return random.Of(numbers);
}

// A number of a list of n, mostly.
Json Index(size_t n, Random& random) { return random.OneIn(200) ? Number(random) : Json(random.Below(n)); }

Json Flag(Random& random) { return random.OneIn(500) ? Number(random) : Json(random.OneIn(2)); }

std::string Expression(int depth, Random& random) {
  static const std::vector<std::string> atoms{
      ".",     "a",     "b",      "\\s",         "\\S", "\\p{L}", "\\p{N}",   "\\p{Han}",  "[^a]",
      "[a-z]", "^",     "$",      "\\b",         "\\X", "\\R",    "(?R)",     "(?<=a)",    "(?<!b)",
      "(?=a)", "(?!a)", "(?i:A)", "[[:alpha:]]", "\\K", "(?#)",   "\xc3\xa9", "\\p{Greek}"};
  static const std::vector<std::string> refused{"(",           "[",         "a**",       "\\C",   "(?1)",
                                                "\\1",         "(*UTF)",    "(*COMMIT)", "(?C1)", "\\E",
                                                "\\x{110000}", "(?(1)a|b)", "(*ACCEPT)"};
  static const std::vector<std::string> times{"",   "*",   "+",    "?",      "*?",       "+?", "*+",
                                              "++", "{2}", "{0,}", "{1,50}", "{0,2000}", "??", "{65535}"};
  static const std::vector<std::string> known{
      "(a+)+[bc]|a", "(?=(?:(?1)))|(b\\K)", "(a|aa)+$",      "(.*)*",    "(a?){50}a{50}", "",
      "(a*)*b",      "\\s+(?!\\S)|\\s+",    "(?<n>a)(?&n)*", "(x+x+)+y", "(?:a|a|a|a)*$", "(a)\\1|(?1)b"};
  if (random.OneIn(60)) return random.Of(refused);
  if (depth == 0) return random.Of(atoms);
  if (random.OneIn(6)) return random.Of(known);
  const std::string first = Expression(depth - 1, random), second = Expression(depth - 1, random);
  switch (random.Below(4)) {
    case 0:
      return first + second;
    case 1:
      return first + "|" + second;
    case 2:
      return "(" + first + ")" + random.Of(times);
    default:
      return "(?:" + first + second + ")" + random.Of(times);
  }
}

Json Pattern(Random& random) {
  if (random.OneIn(2)) return {{"Regex", Expression(1 + static_cast<int>(random.Below(3)), random)}};
  return {{"String", Short(random)}};
}

// One of the kinds, or a Sequence of them in a list of this name.
template <typename Make>
Json Chain(const char* list, int depth, Make make, Random& random) {
  if (depth == 0 || random.OneIn(3)) return make();
  Json members = Json::array();
  for (size_t n = random.Below(random.OneIn(10) ? 40 : 4); n > 0; --n)
    members.push_back(Chain(list, depth - 1, make, random));
  return {{"type", "Sequence"}, {list, members}};
}

Json Metaspace(Random& random) {
  static const std::vector<Json> schemes{"always", "first", "never"};
  Json json{{"type", "Metaspace"}, {"replacement", Short(random)}, {"split", Flag(random)}};
  if (random.OneIn(2)) json["prepend_scheme"] = random.Of(schemes);
  if (random.OneIn(3)) json["add_prefix_space"] = Flag(random);
  return json;
}

// The valid one with some of its digits changed: still base64.
std::string Charsmap(std::string charsmap, Random& random) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (random.OneIn(8)) charsmap.resize(random.Below(charsmap.size()) / 4 * 4);
  for (size_t n = random.Below(6); n > 0 && !charsmap.empty(); --n)
    charsmap[random.Below(charsmap.size())] = random.Of(digits);
  return charsmap;
}

Json Normalizer(const std::string& charsmap, Random& random) {
  static const std::vector<Json> plain{"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "ByteLevel"};
  switch (random.Below(5)) {
    case 0:
      return {{"type", "Strip"}, {"strip_left", Flag(random)}, {"strip_right", Flag(random)}};
    case 1:
      return {{"type", "Prepend"}, {"prepend", Short(random)}};
    case 2:
      return {{"type", "Replace"}, {"pattern", Pattern(random)}, {"content", Short(random)}};
    case 3:
      return {{"type", "Precompiled"}, {"precompiled_charsmap", Charsmap(charsmap, random)}};
    default:
      return {{"type", random.Of(plain)}};
  }
}

Json PreTokenizer(Random& random) {
  static const std::vector<Json> plain{"Whitespace", "WhitespaceSplit", "Whitespace"};
  static const std::vector<Json> behaviours{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                            "Contiguous"};
  switch (random.Below(6)) {
    case 0:
      return {{"type", "ByteLevel"}, {"add_prefix_space", Flag(random)}, {"use_regex", Flag(random)}};
    case 1:
    case 2:
      return {{"type", "Split"},
              {"pattern", Pattern(random)},
              {"behavior", random.Of(behaviours)},
              {"invert", Flag(random)}};
    case 3:
      return {{"type", "Digits"}, {"individual_digits", Flag(random)}};
    case 4:
      return random.OneIn(2) ? Metaspace(random) : Json{{"type", "Punctuation"}, {"behavior", random.Of(behaviours)}};
    default:
      return {{"type", random.Of(plain)}};
  }
}

Json Decoder(Random& random) {
  static const std::vector<Json> plain{"ByteLevel", "ByteFallback", "Fuse"};
  switch (random.Below(4)) {
    case 0:
      return {{"type", "Replace"}, {"pattern", Pattern(random)}, {"content", Short(random)}};
    case 1:
      return Metaspace(random);
    case 2:
      return {{"type", "Strip"}, {"content", Short(random)}, {"start", Index(9, random)}, {"stop", random.Bits() >> 1}};
    default:
      return {{"type", random.Of(plain)}};
  }
}

Json PostProcessor(Random& random) {
  static const std::vector<Json> kinds{"RobertaProcessing", "BertProcessing", "ByteLevel"};
  if (random.OneIn(2))
    return {{"type", random.Of(kinds)},
            {"sep", Json::array({"</s>", Index(9, random)})},
            {"cls", Json::array({"<s>", Index(9, random)})}};
  Json single = Json::array();
  single.push_back(Json{{"Sequence", Json{{"id", "A"}}}});
  for (size_t n = random.Below(5); n > 0; --n)
    single.insert(single.begin() + static_cast<ptrdiff_t>(random.Below(single.size() + 1)),
                  random.OneIn(100) ? single.front() : Json{{"SpecialToken", {{"id", "x"}}}});
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"special_tokens", {{"x", {{"id", "x"}, {"ids", Json::array({Index(9, random), Index(9, random)})}}}}}};
}

std::vector<std::string> Vocabulary(Random& random) {
  std::vector<std::string> words;
  for (const std::string& piece : Pieces()) {
    if (!random.OneIn(4)) words.push_back(piece);
  }
  for (size_t n = random.Below(random.OneIn(20) ? 3000 : 20); n > 0; --n) words.push_back(Short(random));
  const int bytes = random.OneIn(2) ? 256 : static_cast<int>(random.Below(256));
  for (int byte = 0; byte < bytes; ++byte) {
    static const char* const hex = "0123456789ABCDEF";
    words.push_back(std::string("<0x") + hex[byte >> 4] + hex[byte & 15] + ">");
  }
  std::set<std::string> once;
  std::erase_if(words, [&](const std::string& word) {
    return word.empty() || (word.size() > 4096 && !random.OneIn(100)) || !once.insert(word).second;
  });
  return words;
}

Json Model(Random& random) {
  const std::vector<std::string> words = Vocabulary(random);
  Json json{{"byte_fallback", Flag(random)}};
  if (random.OneIn(2)) {
    json["type"] = "Unigram";
    json["unk_id"] = Index(words.size(), random);
    for (const std::string& word : words)
      json["vocab"].push_back({word, random.OneIn(5000) ? Number(random) : Json(-0.1 * double(random.Below(100)))});
    return json;
  }
  json.update({{"type", "BPE"},
               {"fuse_unk", Flag(random)},
               {"ignore_merges", Flag(random)},
               {"unk_token", random.Of(words)},
               {"merges", Json::array()},
               {"vocab", Json::object()}});
  if (random.OneIn(20)) json["continuing_subword_prefix"] = Short(random);
  if (random.OneIn(20)) json["end_of_word_suffix"] = Short(random);
  for (size_t id = 0; id < words.size(); ++id)
    json["vocab"][words[id]] = random.OneIn(5000) ? Number(random) : Json(id);
  for (size_t n = random.Below(200); n > 0; --n) {
    const std::string &left = random.Of(words), &right = random.Of(words);
    if (!random.OneIn(3000)) json["vocab"].emplace(left + right, words.size() + n);
    const bool apart = (left + right).contains(' ') || random.OneIn(2);
    json["merges"].push_back(apart ? Json::array({left, right}) : Json(left + " " + right));
  }
  return json;
}

Json AddedTokens(Random& random) {
  Json tokens = Json::array();
  for (size_t n = random.Below(random.OneIn(30) ? 2000 : 6); n > 0; --n) {
    Json token{{"id", random.OneIn(500) ? Number(random) : Json(9000 + n)}, {"content", Short(random)}};
    for (const char* const key : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
      if (random.OneIn(2)) token[key] = Flag(random);
    }
    tokens.push_back(token);
  }
  return tokens;
}

}  // namespace

Json RandomTokenizer(const std::string& charsmap, Random& random) {
  const int depth = static_cast<int>(random.Below(3));
  Json json{{"added_tokens", AddedTokens(random)}, {"model", Model(random)}};
  if (random.OneIn(2))
    json["normalizer"] = Chain("normalizers", depth, [&] { return Normalizer(charsmap, random); }, random);
  if (random.OneIn(2))
    json["pre_tokenizer"] = Chain("pretokenizers", depth, [&] { return PreTokenizer(random); }, random);
  if (random.OneIn(2)) json["decoder"] = Chain("decoders", depth, [&] { return Decoder(random); }, random);
  if (random.OneIn(3))
    json["post_processor"] = Chain("processors", depth, [&] { return PostProcessor(random); }, random);
  return json;
}

std::string RandomText(Random& random) {
  std::string text;
  for (size_t n = random.Below(30); n > 0; --n) {
    const std::string& piece = random.Of(Pieces());
    text += random.OneIn(10) ? Repeated(piece, random.Below(random.OneIn(4) ? 10'000 : 100)) : piece;
  }
  return text;
}

}  // namespace tare::attack
