// SPDX-License-Identifier: Apache-2.0
// A checkpoint with foreign names: read as in the page's example, and refused with the place and both names.
#include "quant/file/checkpoint_files.h"

#include <stdio.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "tests/quant/file/safetensors_bytes.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"

namespace tare::checkpoint_files_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TensorNamesTest : public testing::Test {
 protected:
  TensorNamesFile Put(const std::string& text) {
    PutFile(folder_ / TensorNamesFile::kName, text);
    return *TensorNamesFile::In(folder_ / ".");
  }
  void Refuses(const std::string& text, const std::string& why, const std::vector<std::string>& stored = {}) {
    EXPECT_THAT(Call([&] { Put(text).OursOf(stored); }),
                ThrowsMessage<Error>(testing::AllOf(HasSubstr("tensor-names.json: "), HasSubstr(why))))
        << text;
  }
  TemporaryFolder folder_;
};

TEST_F(TensorNamesTest, LayersAndWholeNames) {
  const auto ours = Put(R"({"names": {"a.{}.q": "b.{}.wq", "norm": "n"}, "ignore": ["b.{}.mask"]})")
                        .OursOf({"b.0.wq", "b.12.wq", "n", "b.0.mask", "else", "b.x.wq"});
  EXPECT_EQ(ours.at("b.0.wq"), "a.0.q");
  EXPECT_EQ(ours.at("b.12.wq"), "a.12.q");
  EXPECT_EQ(ours.at("n"), "norm");
  EXPECT_EQ(ours.at("b.0.mask"), "");
  EXPECT_EQ(ours.at("else"), "else");
  EXPECT_EQ(ours.at("b.x.wq"), "b.x.wq");  // x is not a number
}

// An optimizer's state, where it was saved.
TEST_F(TensorNamesTest, IgnoredNamesMayEndInAStar) {
  const auto ours = Put(R"({"names": {"a.{}": "b.{}.w"}, "ignore": ["opt.*", "b.{}.m*", "nowhere.*"]})")
                        .OursOf({"b.0.w", "b.0.m", "b.11.mask", "opt.step", "opt.b.0.w", "option", "b.x.m"});
  for (const char* name : {"b.0.m", "b.11.mask", "opt.step", "opt.b.0.w"}) EXPECT_EQ(ours.at(name), "") << name;
  for (const char* name : {"option", "b.x.m"}) EXPECT_EQ(ours.at(name), name);
  EXPECT_EQ(ours.at("b.0.w"), "a.0");
}

TEST_F(TensorNamesTest, ConfigIsPutOver) {
  const TensorNamesFile file = Put(R"({"config": {"model_type": "diff_v1", "hidden_size": 32}})");
  const auto json = nlohmann::json::parse(file.ConfigText(R"({"model_type": "x", "dim": 32})", "c"));
  EXPECT_EQ(json, nlohmann::json({{"model_type", "diff_v1"}, {"hidden_size", 32}, {"dim", 32}}));
  EXPECT_EQ(nlohmann::json::parse(file.ConfigText(std::nullopt, "c"))["hidden_size"], 32);
  EXPECT_FALSE(TensorNamesFile::In(folder_ / "nowhere").has_value());
}

TEST_F(TensorNamesTest, WhatIsWrongIsNamed) {
  Refuses("[1]", "got array, expected an object");
  Refuses("{\"names\": ", "");
  Refuses(R"({"nmaes": {}})", "got key 'nmaes', expected names, ignore or config");
  Refuses(R"({"names": []})", "names: got array, expected an object");
  Refuses(R"({"ignore": {}})", "ignore: got object, expected a list");
  Refuses(R"({"names": {"a": 3}})", "names: 'a': got 3, expected a tensor's name");
  Refuses(R"({"names": {"a.{}": "b"}})", "names: 'a.{}': got 'b', expected {} for a layer's number once in both");
  Refuses(R"({"names": {"a.{}.{}": "b.{}.{}"}})", "once in both or in neither");
  Refuses(R"({"names": {"q.{}": "b.{}.wq"}})",
          "names: 'q.{}': got 'b.{}.wq', which the checkpoint does not have; the nearest are 'b.0.w', 'norm'",
          {"b.0.w", "norm"});
  Refuses(R"({"names": {"q": "x", "k": "x"}})", "tensor 'x': got 'k' and 'q' for it, expected one name", {"x"});
  Refuses(R"({"names": {"q": "x"}})", "names: 'q': got 'q' and 'x', expected one tensor", {"q", "x"});
  Refuses(R"({"ignore": ["y"]})", "ignore: got 'y', which the checkpoint does not have; the nearest is 'x'", {"x"});
}

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

constexpr const char* kIndex = "model.safetensors.index.json";

// A file of one-byte tensors of these names, worth 1, 2, ...
void PutShard(const std::filesystem::path& path, const std::vector<std::string>& names) {
  const std::string values = "\1\2\3\4\5\6\7";
  std::vector<TensorView> tensors;
  for (size_t i = 0; i < names.size(); ++i)
    tensors.push_back({names[i], DType::kU8, {1}, AsBytes(values).subspan(i, 1)});
  WriteSafetensors(path, tensors);
}

void PutTwoShards(const TemporaryFolder& folder) {
  PutShard(folder / "one.safetensors", {"a", "b"});
  PutShard(folder / "two.safetensors", {"c"});
}

void ExpectRefused(const TemporaryFolder& folder, const std::string& why, const std::string& more = "") {
  EXPECT_THAT(Call([&] { const Checkpoint files(folder.path()); }),
              ThrowsMessage<Error>(AllOf(StartsWith(folder.path().string()), HasSubstr(why), HasSubstr(more))));
}

TEST(CheckpointFiles, OpensASingleFile) {
  const TemporaryFolder folder;
  PutShard(folder / "model.safetensors", {"x", "y"});
  PutShard(folder / "other.safetensors", {"z"});
  const CheckpointFiles files(folder.path());
  EXPECT_THAT(files.names(), ElementsAre("x", "y"));
  EXPECT_EQ(files.Find("y")->bytes[0], std::byte{2});
  EXPECT_EQ(files.Find("z"), nullptr);
  EXPECT_EQ(files.total_bytes(), 2);
}

TEST(CheckpointFiles, OpensShards) {
  const TemporaryFolder folder;
  PutTwoShards(folder);
  PutFile(folder / kIndex, R"({"metadata":{"total_size":3},"weight_map":)"
                           R"({"c":"two.safetensors","a":"one.safetensors","b":"one.safetensors"}})");
  CheckpointFiles opened(folder.path());
  const CheckpointFiles files(std::move(opened));
  EXPECT_THAT(files.names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(files.Find("b")->bytes[0], std::byte{2});
  EXPECT_EQ(files.Find("c")->bytes[0], std::byte{1});
  EXPECT_EQ(files.total_bytes(), 3);
  EXPECT_EQ(files.files().size(), 2u);
  for (const std::string& name : files.names()) files.Release(*files.Find(name));
  EXPECT_EQ(files.Find("b")->bytes[0], std::byte{2});
  EXPECT_THROW(files.Release({"d", DType::kU8, {}, {}}), Error);
}

TEST(CheckpointFiles, OpensWhatTheReferenceWrote) {
  const CheckpointFiles shards(TARE_SOURCE_DIR "/tests/data/golden/diffllama-gqa");
  EXPECT_EQ(shards.files().size(), 6u);
  EXPECT_EQ(shards.total_bytes(), 278016);  // its index says so
  EXPECT_EQ(shards.Find("model.embed_tokens.weight")->dtype, DType::kBF16);
  const CheckpointFiles single(TARE_SOURCE_DIR "/tests/data/golden/llama-mha");
  EXPECT_EQ(single.files().size(), 1u);
  EXPECT_EQ(single.Find("model.embed_tokens.weight")->dtype, DType::kF32);
}

TEST(CheckpointFiles, ContentHashIsWhatTheShellSays) {
  const TemporaryFolder folder;
  PutTwoShards(folder);
  PutFile(folder / kIndex, R"({"weight_map":)"
                           R"({"c":"two.safetensors","a":"one.safetensors","b":"one.safetensors"}})");
  const auto shell = [&](const std::string& files) {
    const std::string command = "cd '" + folder.path().string() + "' && sha256sum " + files + " | sha256sum";
    FILE* pipe = popen(command.c_str(), "r");
    char hash[65] = {};
    EXPECT_EQ(fread(hash, 1, 64, pipe), 64u);
    pclose(pipe);
    return std::string(hash);
  };
  EXPECT_EQ(CheckpointFiles(folder.path()).ContentHash(), shell("one.safetensors two.safetensors"));
  PutFile(folder / "tensor-names.json", R"({"names": {"d": "a"}})");
  EXPECT_EQ(CheckpointFiles(folder.path()).ContentHash(), shell("one.safetensors two.safetensors tensor-names.json"));
}

TEST(CheckpointFiles, SaysWhatAFolderLacks) {
  const TemporaryFolder folder;
  ExpectRefused(folder, "neither model.safetensors nor model.safetensors.index.json", "downloading");
  PutFile(folder / "pytorch_model.bin", "pickle");
  ExpectRefused(folder, "neither model.safetensors nor", "safe_serialization=True");
  EXPECT_THAT(Call([&] { CheckpointFiles(folder / "none"); }),
              ThrowsMessage<Error>(HasSubstr("/none: no such folder")));
  EXPECT_THAT(Call([&] { CheckpointFiles(folder / "pytorch_model.bin"); }),
              ThrowsMessage<Error>(HasSubstr("got a file")));
  EXPECT_THROW(CheckpointFiles(folder / std::string(300, 'x')), Error);
}

TEST(CheckpointFiles, RefusesBothKindsAtOnce) {
  const TemporaryFolder folder;
  PutShard(folder / "model.safetensors", {"a"});
  PutFile(folder / kIndex, R"({"weight_map":{"a":"model.safetensors"}})");
  ExpectRefused(folder, "has both model.safetensors and model.safetensors.index.json", "removing");
}

TEST(CheckpointFiles, RefusesAnIndexThatIsNone) {
  const TemporaryFolder folder;
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"", "not valid JSON"},
           {"{", "not valid JSON"},
           {"[]", "no object 'weight_map'"},
           {"{}", "no object 'weight_map'"},
           {R"({"weight_map":[]})", "no object 'weight_map'"},
           {R"({"weight_map":{"a":1}})", "'a': got number, expected a file name"},
           {R"({"weight_map":{"a":"x","a":"y"}})", "'a' twice"},
       }) {
    PutFile(folder / kIndex, text);
    ExpectRefused(folder, "index.json", why);
  }
}

TEST(CheckpointFiles, ShardsStayInTheFolder) {
  const TemporaryFolder folder;
  PutTwoShards(folder);
  for (const std::string name :
       {"", "../one.safetensors", "/one.safetensors", "./one.safetensors", "..", "a\\\\b", "one.safetensors\\u0000"}) {
    PutFile(folder / kIndex, R"({"weight_map":{"a":")" + name + "\"}}");
    ExpectRefused(folder, "expected shards named without '/' and '..', got '");
  }
  PutFile(folder / kIndex, R"({"weight_map":{"a":")" + std::string(300, 'x') + "\"}}");
  ExpectRefused(folder, "no such file");
  PutFile(folder / kIndex, R"({"weight_map":{"a":"."}})");
  ExpectRefused(folder, "got a folder");
}

TEST(CheckpointFiles, RefusesShardsThatDoNotAgreeWithTheIndex) {
  const TemporaryFolder folder;
  PutTwoShards(folder);
  const auto with_map = [&](const std::string& map) { PutFile(folder / kIndex, "{\"weight_map\":{" + map + "}}"); };
  with_map(R"("a":"one.safetensors","b":"one.safetensors","c":"three.safetensors")");
  ExpectRefused(folder, "three.safetensors: no such file, but the index names it");
  with_map(R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors","d":"two.safetensors")");
  ExpectRefused(folder, "tensor 'd': the index says it is in two.safetensors, but it is in no shard");
  with_map(R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")");
  ExpectRefused(folder, "tensor 'b': the index says it is in two.safetensors, but it is in one.safetensors");
  with_map(R"("a":"one.safetensors","c":"two.safetensors")");
  ExpectRefused(folder, "tensor 'b': is in one.safetensors but not in the index");
  PutShard(folder / "two.safetensors", {"a", "c"});
  with_map(R"("a":"one.safetensors","b":"one.safetensors","c":"two.safetensors")");
  ExpectRefused(folder, "tensor 'a': occurs twice, in one.safetensors and in two.safetensors");
}

TEST(CheckpointFiles, RefusesADamagedShard) {
  const TemporaryFolder folder;
  PutFile(folder / "model.safetensors", SafetensorsBytes("{}", 1));
  ExpectRefused(folder, "model.safetensors: the file has 1 more bytes");
}

class Nothing : public CheckpointSource {
  std::vector<std::string> names() const override { return {}; }
  const TensorView* Find(std::string_view) const override { return nullptr; }
  void Release(const std::string&) const override {}
  std::string ContentHash() const override { return ""; }
};

TEST(CheckpointSource, HasTensorsAloneUnlessItSaysMore) {
  const Nothing nothing;
  const CheckpointSource& source = nothing;
  EXPECT_EQ(source.FindQuantized("a"), nullptr);
  EXPECT_EQ(source.FindForeign("a"), nullptr);
  EXPECT_EQ(source.quantized(), nullptr);
  EXPECT_TRUE(source.notes().empty());
}

}  // namespace

}  // namespace tare::checkpoint_files_test
