// SPDX-License-Identifier: Apache-2.0
// The files of a tokenizer that were read from a GGUF file become the same keys, and these the same files.
#include "quant/interchange/gguf/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "quant/base/message.h"
#include "quant/file/json.h"
#include "quant/file/mapped_file.h"
#include "quant/interchange/gguf/container.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::vocabulary_writer_test {
namespace {

using namespace gguf;
using testing::HasSubstr;
using testing::ThrowsMessage;

using Files = std::map<std::string, std::string>;

Files FilesOf(const Metadata& metadata) {
  Files files;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
    if (const auto text = TokenizerText(metadata, name)) files[name] = *text;
  }
  return files;
}

bool Add(const Files& files, const VocabularyUse& use, MetadataWriter& out) {
  return AddVocabulary(
      [&](const std::string& name) {
        const auto found = files.find(name);
        return found == files.end() ? std::nullopt : std::optional(found->second);
      },
      use, out);
}

Files Golden(const std::string& name) {
  const MappedFile file(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / ("tokenizer-" + name + ".gguf"));
  return FilesOf(Parse(file.bytes(), name).metadata);
}

TEST(GgufVocabularyWriter, FilesAreReadBack) {
  for (const char* name : {"llama-bpe", "qwen2", "dbrx", "gpt-2", "olmo", "smollm", "gpt-4o", "tekken", "pieces"}) {
    const std::string file = std::string("tokenizer-") + name + ".gguf";
    const MappedFile mapped(std::filesystem::path(TARE_SOURCE_DIR) / "tests/data/gguf" / file);
    const Metadata source = Parse(mapped.bytes(), name).metadata;
    const Files files = FilesOf(source);
    const bool is_pieces = name == std::string("pieces");
    VocabularyUse use{.tokens = static_cast<int64_t>(source.Texts("tokenizer.ggml.tokens")->size())};
    if (is_pieces) use.before = {1};
    if (const auto end = source.Unsigned("tokenizer.ggml.eos_token_id", 10000)) use.ends = {static_cast<int>(*end)};
    const TemporaryFolder folder;
    MetadataWriter out("m");
    ASSERT_TRUE(Add(files, use, out));
    WriteGguf(folder / "t.gguf", out, {}, {});
    const MappedFile written(folder / "t.gguf");
    const Content content = Parse(written.bytes(), "t.gguf");
    EXPECT_EQ(FilesOf(content.metadata), files) << name;
    for (const char* key : {"model", "pre"})
      EXPECT_EQ(content.metadata.Text(std::string("tokenizer.ggml.") + key),
                source.Text(std::string("tokenizer.ggml.") + key));
    EXPECT_EQ(content.metadata.Texts("tokenizer.ggml.tokens"), source.Texts("tokenizer.ggml.tokens")) << name;
    EXPECT_EQ(content.metadata.Texts("tokenizer.ggml.merges"), source.Texts("tokenizer.ggml.merges")) << name;
    EXPECT_EQ(content.metadata.Reals("tokenizer.ggml.scores"), source.Reals("tokenizer.ggml.scores")) << name;
    EXPECT_EQ(content.metadata.Reals("tokenizer.ggml.token_type"), source.Reals("tokenizer.ggml.token_type")) << name;
  }
}

TEST(GgufVocabularyWriter, IdsWithoutATokenAreUnused) {
  const TemporaryFolder folder;
  MetadataWriter out("m");
  ASSERT_TRUE(Add(Golden("qwen2"), {.tokens = 523, .before = {}, .after = {}, .ends = {520, 519}}, out));
  WriteGguf(folder / "t.gguf", out, {}, {});
  const MappedFile written(folder / "t.gguf");
  const Metadata metadata = Parse(written.bytes(), "t.gguf").metadata;
  EXPECT_EQ(metadata.Texts("tokenizer.ggml.tokens")->at(522), "[PAD522]");
  EXPECT_EQ(metadata.Reals("tokenizer.ggml.token_type")->at(522), 5);
  EXPECT_EQ(metadata.Unsigned("tokenizer.ggml.eos_token_id", 999), 520u);
  EXPECT_EQ(metadata.Unsigned("tokenizer.ggml.eot_token_id", 999), 519u);
}

// Scores and kinds are those of llama.cpp's convert_hf_to_gguf.py (_create_vocab_sentencepiece).
TEST(GgufVocabularyWriter, TokensOfTheFolderAreTokens) {
  const TemporaryFolder folder;
  for (const char* name : {"pieces", "qwen2"}) {
    Files files = Golden(name);
    const int64_t first = name == std::string("pieces") ? 2048 : 521;
    if (first == 2048)
      files["tokenizer.json"] = Json{{"model", {{"type", "Unigram"}}},
                                     {"added_tokens", {{{"id", 2050}, {"content", "a b"}, {"special", false}}}}}
                                    .dump();
    MetadataWriter out("m");
    static std::string said;
    said.clear();
    OnNotice([](const std::string& text) { said += text; });
    ASSERT_TRUE(Add(files,
                    {.tokens = 2053,
                     .before = {},
                     .after = {},
                     .ends = {},
                     .added = {{first, "<|im_start|>", true}, {first + 1, "<mine>", false}, {2053, "no row", false}}},
                    out));
    OnNotice(nullptr);
    WriteGguf(folder / "t.gguf", out, {}, {});
    const MappedFile written(folder / "t.gguf");
    const Metadata metadata = Parse(written.bytes(), "t.gguf").metadata;
    const auto texts = *metadata.Texts("tokenizer.ggml.tokens");
    const auto kinds = *metadata.Reals("tokenizer.ggml.token_type");
    const auto at = static_cast<size_t>(first);
    EXPECT_EQ(texts.size(), 2053u);
    EXPECT_EQ(texts[at], "<|im_start|>");
    EXPECT_EQ(kinds[at], 3);
    EXPECT_EQ(texts[at + 1], "<mine>");
    EXPECT_EQ(kinds[at + 1], 4);
    const int64_t unused = first == 2048 ? 2 : 2053 - 523;
    EXPECT_EQ(said, "m: the embedding has " + std::to_string(unused) +
                        " rows without a token of the tokenizer; they become unused tokens");
    if (first != 2048) continue;
    EXPECT_EQ(texts[2050], "a b");
    EXPECT_EQ(kinds[2050], 4);
    EXPECT_EQ(metadata.Reals("tokenizer.ggml.scores")->at(2050), -1000);
    EXPECT_EQ(texts[2051], "[PAD2051]");
  }
}

TEST(GgufVocabularyWriter, WithoutATokenizerNothingIsWritten) {
  MetadataWriter out("m");
  EXPECT_FALSE(Add({}, {.tokens = 9}, out));
  EXPECT_EQ(out.count(), 0u);
}

void Refuses(const Files& files, const VocabularyUse& use, const char* why) {
  MetadataWriter out("m");
  EXPECT_THAT(Call([&] { Add(files, use, out); }), ThrowsMessage<Error>(HasSubstr(why)));
}

// A member of tokenizer.json, changed.
Files Changed(const char* pointer, const Json& value) {
  Files files = Golden("qwen2");
  Json json = ParseOrderedJson(files["tokenizer.json"], "t");
  json[Json::json_pointer(pointer)] = value;
  files["tokenizer.json"] = json.dump();
  return files;
}

TEST(GgufVocabularyWriter, WhatAFileCannotHoldIsRefused) {
  const VocabularyUse use{.tokens = 521};
  Refuses(Golden("qwen2"), {.tokens = 520}, "m: tokenizer.json: ");
  Refuses(Golden("pieces"), {.tokens = 100}, "m: tokenizer.model: got 2048 tokens, expected at most the 100 rows");
  Refuses(Golden("qwen2"), {.tokens = 521, .before = {1, 2}}, "got 2 tokens before a text and 0 after it");
  Refuses(Changed("/normalizer", {{"type", "NFKC"}}), use,
          "that llama.cpp has no name for, expected those of llama-bpe");
  Refuses(Changed("/model/ignore_merges", true), use, "that llama.cpp has no name for");
  Refuses(Changed("/model/type", "Unigram"), use, "got a model that is not byte-level BPE");
  Refuses(Changed("/model/end_of_word_suffix", "</w>"), use, "end_of_word_suffix: got \"</w>\", expected none");
  Refuses(Changed("/added_tokens/0/lstrip", true), use, "added_tokens: got lstrip for id 520, expected false");
  Refuses(Changed("/added_tokens/0/id", 521), use, "got id 521, expected 0 to 520");
  Refuses(Changed("/added_tokens/0/content", "a"), use, "got the token 'a' twice, expected once");
  Refuses(Changed("/model/merges/0", {1, 2}), use, "merges: got [1,2], expected two tokens");
  Refuses({{"tokenizer.model", "\xff\xff"}}, use, "got bytes that are no SentencePiece model");
  Refuses({{"tokenizer.model", ""}}, use, "got a model that is not BPE");
  Files unigram = Golden("pieces");
  std::string& model = unigram["tokenizer.model"];
  const size_t normalizer = model.rfind("identity");
  ASSERT_NE(normalizer, model.npos);
  std::string mapped = model;
  mapped[normalizer - 2] = '\x12';  // the normalizer's name (1) as its table (2)
  Refuses({{"tokenizer.model", mapped}}, {.tokens = 2048}, "got a table that maps characters, expected none");
}

}  // namespace
}  // namespace tare::vocabulary_writer_test
