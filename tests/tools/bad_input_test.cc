// SPDX-License-Identifier: Apache-2.0
// Bad input as a user meets it: each gives exit code 1 with a message that says where and what, nothing on standard
// output, and nothing half-written. Most cases use `tare dump`, which reads everything and writes most.
// In the sanitized build: it reads files that others made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "quant/base/message.h"
#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"
#include "tests/support/ids.h"
#include "tests/support/run_command.h"

namespace tare::bad_input_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Words = std::vector<std::string>;

class BadInputTest : public testing::Test {
 protected:
  BadInputTest() {
    fs::create_directory(out_);
    fs::create_directory(model_);
    PutManyIds(ids_, 2, 20);
  }

  // Runs the command; `words` are what the message must have.
  void Refused(const std::vector<std::string>& command, const Words& words) {
    SCOPED_TRACE(testing::PrintToString(command));
    Refused(CallTare(command), words);
  }
  void Refused(const Outcome& outcome, const Words& words) {
    EXPECT_EQ(outcome.exit_code, RefusalCode(outcome.err));
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, StartsWith("tare: "));
    for (const std::string& word : words) EXPECT_THAT(outcome.err, HasSubstr(word));
    EXPECT_THAT(Files(out_), IsEmpty());
  }
  std::vector<std::string> Dump(const std::string& model, const std::string& input, Words options = {}) {
    Words command{"dump", model, "--input", input, "--out", out_ / "x.h5"};
    command.insert(command.end(), options.begin(), options.end());
    return command;
  }
  static Words Files(const fs::path& folder) {
    Words names;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) names.push_back(entry.path());
    return names;
  }
  std::string Put(const std::string& name, std::string_view text) {
    PutFile(folder_ / name, text);
    return folder_ / name;
  }

  TemporaryFolder folder_;
  const fs::path out_ = folder_ / "out", model_ = folder_ / "m";
  const std::string ids_ = folder_ / "ids.safetensors", golden_ = GoldenFolder("llama-mha"),
                    pair_ = PairFolder("novels-standard");
};

// A checkpoint's one weight file, taken apart and put together again.
struct WeightFile {
  explicit WeightFile(const fs::path& path) {
    const std::string file = GetFile(path);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    header = nlohmann::ordered_json::parse(file.substr(sizeof length, length));
    data = file.substr(sizeof length + length);
  }
  std::string Text() const {
    const std::string text = header.dump();
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data;
  }

  nlohmann::ordered_json header;
  std::string data;
};

class BadCheckpointTest : public BadInputTest {
 protected:
  BadCheckpointTest() : file_(GoldenFolder("llama-mha") / "model.safetensors") {
    fs::copy(golden_ + "/config.json", model_);
  }

  void RefusedFile(std::string_view text, const Words& words) {
    PutFile(model_ / "model.safetensors", text);
    Refused(Dump(model_, ids_), words);
  }
  void RefusedWeights(const Words& words) { RefusedFile(file_.Text(), words); }

  WeightFile file_;
};

TEST_F(BadCheckpointTest, Missing) {
  Refused(Dump(folder_ / "none", ids_), {"none: no such folder; expected a checkpoint folder"});
  Refused(Dump(model_, ids_), {model_, "neither model.safetensors nor model.safetensors.index.json"});
  fs::remove(model_ / "config.json");
  Refused(Dump(model_, ids_), {"m/config.json: no such file"});
}

TEST_F(BadCheckpointTest, Truncated) {
  const std::string text = file_.Text();
  RefusedFile("", {"m/model.safetensors: got 0 bytes, too few"});
  RefusedFile(text.substr(0, 5), {"got 5 bytes, too few"});
  RefusedFile(text.substr(0, 300), {"model.safetensors: "});
  RefusedFile(text.substr(0, text.size() - 100), {"truncated: the file is 100 bytes short", "model.norm.weight"});
}

TEST_F(BadCheckpointTest, Oversized) {
  RefusedFile(file_.Text() + "more", {"has 4 more bytes after its last tensor"});
  std::string text = file_.Text();
  text[7] = 0x40;
  RefusedFile(text, {"got a header of 46116", "expected at most 100000000"});
}

TEST_F(BadCheckpointTest, Overlapping) {
  auto& offsets = file_.header["model.norm.weight"]["data_offsets"];
  offsets = {offsets[0].get<int64_t>() - 4, offsets[1].get<int64_t>() - 4};
  file_.data.resize(file_.data.size() - 4);
  RefusedWeights({"tensor 'model.norm.weight': overlaps"});
}

TEST_F(BadCheckpointTest, ShardsMissingOrTwice) {
  const fs::path shards = folder_ / "shards";
  fs::copy(GoldenFolder("diffllama-gqa"), shards);
  fs::copy_file(shards / "model-00003-of-00006.safetensors", shards / "model-00004-of-00006.safetensors",
                fs::copy_options::overwrite_existing);
  Refused(Dump(shards, ids_), {"shards/model.safetensors.index.json", "twice", "model-00003-of", "model-00004-of"});
  fs::copy_file(fs::path(GoldenFolder("diffllama-gqa")) / "model-00004-of-00006.safetensors",
                shards / "model-00004-of-00006.safetensors", fs::copy_options::overwrite_existing);
  fs::remove(shards / "model-00003-of-00006.safetensors");
  Refused(Dump(shards, ids_), {"model-00003-of-00006.safetensors: no such file"});
}

TEST_F(BadCheckpointTest, TensorMissing) {
  file_.header["model.norm.other"] = file_.header["model.norm.weight"];
  file_.header.erase("model.norm.weight");
  RefusedWeights({"m: tensor 'model.norm.weight': missing; expected shape [64]"});
}

TEST_F(BadCheckpointTest, UnknownTensor) {
  EditedCheckpoint edited(golden_);
  edited.tensors["model.layers.0.self_attn.q_proj.bias"] = edited.tensors["model.norm.weight"];
  edited.Write(model_);
  Refused(Dump(model_, ids_),
          {"m: tensor 'model.layers.0.self_attn.q_proj.bias': not part of the model", "attention_bias"});
}

TEST_F(BadCheckpointTest, TensorMisshapen) {
  file_.header["model.norm.weight"]["shape"] = {8, 8};
  RefusedWeights({"m: tensor 'model.norm.weight': got shape [8, 8], expected [64] from config.json"});
}

TEST_F(BadCheckpointTest, TensorOfAnUnknownType) {
  file_.header["model.norm.weight"]["dtype"] = "F33";
  RefusedWeights({"tensor 'model.norm.weight': got dtype 'F33'"});
  file_.header["model.norm.weight"]["dtype"] = "I32";
  RefusedWeights({"m: tensor 'model.norm.weight': got dtype I32, expected F32, BF16 or F16"});
}

TEST_F(BadCheckpointTest, TensorWithNan) {
  const auto begin = file_.header["model.norm.weight"]["data_offsets"][0].get<size_t>();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(file_.data.data() + begin + 4 * 5, &nan, sizeof nan);
  RefusedWeights({"m: tensor 'model.norm.weight', index 5: NaN or infinity"});
}

class BadConfigTest : public BadInputTest {
 protected:
  void RefusedConfig(const std::string& golden, const std::function<void(nlohmann::json&)>& edit, const Words& words) {
    EditedCheckpoint edited(GoldenFolder(golden));
    edit(edited.config);
    edited.Write(model_);
    Refused(Dump(model_, ids_), words);
  }
};

TEST_F(BadConfigTest, NeededKeysMissing) {
  for (const char* key : {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "rms_norm_eps"})
    RefusedConfig("diff-v1-mha", [&](nlohmann::json& config) { config.erase(key); },
                  {"m/config.json: key '" + std::string(key) + "' is missing"});
}

TEST_F(BadConfigTest, UnknownFamiliesAndFeatures) {
  RefusedConfig("llama-mha", [](nlohmann::json& config) { config["model_type"] = "gpt2"; },
                {"model_type: got 'gpt2', expected llama, diffllama"});
  RefusedConfig("llama-mha", [](nlohmann::json& config) { config["hidden_act"] = "prelu"; },
                {"hidden_act: got 'prelu', expected silu, swish"});
  RefusedConfig("llama-mha", [](nlohmann::json& config) { config["quantization_config"] = {{"bits", 4}}; },
                {"quantization_config: quant_method: missing"});
}

TEST_F(BadConfigTest, HeadsThatDoNotDivide) {
  RefusedConfig("llama-mha", [](nlohmann::json& config) { config["num_key_value_heads"] = 3; },
                {"num_attention_heads: got 4, expected a multiple of num_key_value_heads 3"});
  RefusedConfig("diffllama-mha",
                [](nlohmann::json& config) { config["num_attention_heads"] = config["num_key_value_heads"] = 3; },
                {"num_attention_heads: got 3, expected an even number"});
}

TEST_F(BadConfigTest, NotJson) {
  fs::copy(golden_ + "/model.safetensors", model_);
  PutFile(model_ / "config.json", "{\"model_type\": \"llama\",");
  Refused(Dump(model_, ids_), {"m/config.json: not valid JSON", "line 1, column 24"});
}

TEST_F(BadInputTest, IdsOutsideTheVocabulary) {
  PutIds(ids_, 2, {1, 2, 3, 4, 160, 5});
  Refused(Dump(golden_, ids_), {"ids.safetensors: input_ids: got id 160 at row 1, position 1, expected 0 to 159"});
  PutIds(ids_, 1, {1, -2});
  Refused(Dump(golden_, ids_), {"got id -2 at row 0, position 1"});
}

TEST_F(BadInputTest, FilesWithoutIds) {
  Refused(Dump(golden_, golden_ + "/model.safetensors"), {"model.safetensors: input_ids: no such array"});
  Refused(Dump(golden_, Put("x.h5", "no HDF5")), {"x.h5: got 7 bytes that are not an HDF5 file"});
  const std::vector<float> values(4);
  WriteSafetensors(ids_, {{"input_ids", DType::kF32, {2, 2}, std::as_bytes(std::span(values))}});
  Refused(Dump(golden_, ids_), {"input_ids: got values of type F32, expected integers"});
  WriteSafetensors(ids_, {{"input_ids", DType::kI64, {2, 0}, {}}});
  Refused(Dump(golden_, ids_), {"input_ids: got shape [2, 0], expected at least one token"});
  Refused(Dump(golden_, folder_ / "none.safetensors"), {"none.safetensors: no such file"});
}

TEST_F(BadInputTest, InvalidTexts) {
  Refused(Dump(pair_, Put("e.txt", "")), {"e.txt: got an empty file, expected a text"});
  Refused(Dump(pair_, Put("s.txt", "   ")), {"s.txt: got nothing but spaces"});
  Refused(Dump(pair_, Put("l.txt", "one\ncaf\xe9 two")),
          {"l.txt: got byte 0xe9 at offset 7 (line 2)", "UTF-8", "iconv"});
  Refused(Dump(pair_, Put("b.txt", std::string("caf\xe9 \x01", 6))),
          {"not valid UTF-8 there; expected a text, and these bytes are none"});
  Refused(Dump(pair_, Put("i.txt", "\n{\"ctx\": \"a\"}\n{}\n")),
          {"i.txt: got lines of JSON, expected a text; try a task"});
  Refused(Dump(pair_, folder_ / "none.txt"), {"none.txt: no such file"});
  Refused(Dump(pair_, out_), {"out: got a folder, expected a file"});
  // A checkpoint without a tokenizer we can run: two lines of Python make ids.
  Refused(Dump(golden_, Put("t.txt", "text")),
          {"llama-mha: no tokenizer.json or tokenizer.model", "\n  import ", "\n  safetensors.torch.save_file("});
  for (const char* text : {"e.txt", "l.txt"})
    Refused({"eval", pair_, "--tasks", "perplexity=" + (folder_ / text).string(), "--json", out_ / "x.json"}, {text});
}

TEST_F(BadInputTest, InvalidItems) {
  const auto refused = [&](std::string_view text, const char* why) {
    Refused({"eval", pair_, "--tasks", "choice=" + Put("i.jsonl", text), "--json", out_ / "x.json"},
            {"i.jsonl: ", why});
  };
  refused("", "got no items");
  refused("{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"],\"label\":0}\n{\"ctx\":\n", "line 2: not valid JSON");
  refused("{\"ctx\":\"a\",\"endings\":[\"b\",\"c\"],\"label\":2}", "line 1: \"label\": got 2, expected 0 to 1");
  refused("{\"ctx\":\"a\xff\",\"endings\":[\"b\",\"c\"],\"label\":0}", "line 1: got byte 0xff");
  std::string context;
  for (int i = 0; i < 3000; ++i) context += "word ";
  refused("{\"ctx\":\"" + context + "\",\"endings\":[\"b\",\"c\"],\"label\":0}", "line 1: got 300");
}

TEST_F(BadInputTest, PlansThatDoNotParseAreShownWithThePlace) {
  const auto refused = [&](const char* plan, const Words& words) {
    Refused(Dump(golden_, ids_, {"--plan", plan}), words);
  };
  refused("attn_logits=int5/row", {"plan, column 13: got 'int5', expected one of f32 int8 int6 int4",
                                   "\n  attn_logits=int5/row\n" + std::string(14, ' ') + "^"});
  refused("attn_logits", {"plan, column 12: got the end, expected '='"});
  refused("attn=int8/row", {"plan, column 1: got 'attn'"});
  refused("attn_logits=int8/row,", {"plan, column 22"});
  // Those that parse, but name what this build or this model does not have.
  refused("cache_k=int8/token",
          {"dump: got cache_k=int8/token,cache_v=f32, expected a plan without cache_k and cache_v"});
  refused("attn_logits[l2]=int8/row", {"got layer 2 of attn_logits, expected 0 to 1"});
  Refused({"eval", golden_, "--tasks", "perplexity=" + ids_, "--plan", "attn_logits=int8", "--json", out_ / "x.json"},
          {"plan, column 17"});
}

TEST_F(BadInputTest, InvalidQuestions) {
  Refused(Dump(golden_, ids_, {"--window", "513"}), {"--window: got 513, expected 1 to 512"});
  Refused(Dump(golden_, ids_, {"--window", "10", "--stride", "11"}), {"--stride: got 11"});
  Refused({"eval", golden_, "--tasks", "perplexity=" + ids_, "--tokens", "1"}, {"no token to predict"});
  Refused({"eval", golden_, "--tasks", "accuracy=" + ids_}, {"--tasks: got 'accuracy="});
  Refused({"eval", golden_, "--tasks", "perplexity=" + ids_ + ",perplexity=" + ids_},
          {"two tasks are called perplexity:ids"});
}

TEST_F(BadInputTest, NamesThatAreNotUtf8) {
  const fs::path odd = folder_ / "m\xff";
  EditedCheckpoint(golden_).Write(odd);
  Refused(Dump(odd, ids_), {"the folder's name: got byte 0xff"});
  fs::copy_file(ids_, folder_ / "i\xff.safetensors");
  Refused({"eval", golden_, "--tasks", "perplexity=" + (folder_ / "i\xff.safetensors").string()},
          {"the file's name: got byte 0xff"});
}

// No file may grow beyond 1,000 bytes: EFBIG where a full disk has ENOSPC. What was there under the final name stays.
TEST_F(BadInputTest, AFullDisk) {
  PutManyIds(ids_, 2, 20);
  Refused(StartTare(Dump(golden_, ids_, {"--sites", "logits,attn_logits"}), {.file_bytes = 1000}),
          {"x.h5: writing failed: File too large; try freeing space"});
  const std::string old = R"({"schema": "tare.stats/3"})", json = Put("x.json", old);
  const Outcome stats = StartTare({"stats", golden_, "--input", ids_, "--json", json}, {.file_bytes = 2000});
  EXPECT_EQ(stats.exit_code, 1);
  EXPECT_THAT(stats.err, HasSubstr("x.json: writing failed: File too large"));
  EXPECT_EQ(GetFile(json), old);

  // The cells that fit are kept, whole.
  const std::vector<std::string> sweep{"sweep", golden_, "--tasks", "perplexity=" + ids_, "--out", folder_ / "s"};
  const Outcome half = StartTare(sweep, {.file_bytes = 1500});
  EXPECT_EQ(half.exit_code, 1);
  EXPECT_THAT(half.err, HasSubstr("cells.jsonl: writing failed"));
  const std::string cells = GetFile(folder_ / "s" / "cells.jsonl");
  EXPECT_THAT(cells, StartsWith("{\"schema\":\"tare.cell/2\""));
  EXPECT_TRUE(cells.ends_with("}\n"));
  EXPECT_EQ(Files(folder_ / "s").size(), 1u);
  EXPECT_EQ(CallTare(sweep).exit_code, 0);
  EXPECT_THAT(GetFile(folder_ / "s" / "cells.jsonl"), StartsWith(cells));
}

bool HandlesInterrupt(pid_t process) {
  const std::string status = GetFile(Formatted("/proc/{}/status", process));
  const size_t at = status.find("SigCgt:");
  return at != std::string::npos && (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
}

// From the moment that the program has its handler; one that was done before the signal came gets more to do.
TEST_F(BadInputTest, ControlC) {
  for (const Words& options : {Words{"dump", golden_, "--input", ids_, "--sites", "final_norm", "--out", out_ / "x.h5"},
                               {"stats", golden_, "--input", ids_, "--json", out_ / "x.json", "--csv", out_ / "x.csv"},
                               {"eval", golden_, "--tasks", "perplexity=" + ids_, "--json", out_ / "x.json"}}) {
    Outcome outcome;
    for (int64_t rows = 64; rows <= 256; rows *= 4) {
      for (const std::string& file : Files(out_)) fs::remove(file);
      PutManyIds(ids_, rows, 512);
      RunningCommand command(TareCommand(options));
      command.SignalOnce([&] { return HandlesInterrupt(command.process()); }, SIGINT);
      outcome = command.Wait();
      if (outcome.exit_code != 0) break;
    }
    EXPECT_EQ(outcome.exit_code, -SIGINT) << options[0];
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "tare: interrupted: no half-written file was left behind; nothing was kept\n");
    EXPECT_THAT(Files(out_), IsEmpty());
  }
}

// Once its temporary is there.
TEST_F(BadInputTest, TerminatedWhileWriting) {
  Outcome outcome;
  for (int64_t rows = 64; rows <= 256; rows *= 4) {
    for (const std::string& file : Files(out_)) fs::remove(file);
    PutManyIds(ids_, rows, 512);
    RunningCommand command(TareCommand(Dump(golden_, ids_, {"--sites", "final_norm"})));
    command.SignalOnce([&] { return !Files(out_).empty(); }, SIGTERM);
    outcome = command.Wait();
    if (outcome.exit_code != 0) break;
  }
  EXPECT_EQ(outcome.exit_code, -SIGTERM);
  EXPECT_THAT(outcome.err, StartsWith("tare: interrupted"));
  EXPECT_THAT(Files(out_), IsEmpty());
}

}  // namespace
}  // namespace tare::bad_input_test
