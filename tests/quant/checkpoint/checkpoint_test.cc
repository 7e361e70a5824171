// SPDX-License-Identifier: Apache-2.0
// A folder and a quantized file give the same answers.
#include "quant/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/base/message.h"
#include "quant/file/sha256.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/call.h"
#include "tests/support/random_quantized.h"

namespace tare::checkpoint_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(Checkpoint, AHubsCacheFolderHoldsTheSnapshotThatMainNames) {
  const TemporaryFolder folder;
  const auto cache = folder / "models--ORG--NAME", snapshots = cache / "snapshots";
  EXPECT_EQ(HubSnapshot(cache), cache) << "there is none";
  std::filesystem::create_directories(snapshots / "a1");
  PutFile(snapshots / "a1/config.json", "{}");
  EXPECT_EQ(HubSnapshot(cache), snapshots / "a1") << "the only one";
  std::filesystem::create_directories(snapshots / "b2");
  PutFile(snapshots / "b2/config.json", "{}");
  EXPECT_EQ(HubSnapshot(cache), cache) << "which of two";
  std::filesystem::create_directories(cache / "refs");
  PutFile(cache / "refs/main", "b2\n");
  EXPECT_EQ(HubSnapshot(cache), snapshots / "b2");
  EXPECT_EQ(HubSnapshot(snapshots / "a1"), snapshots / "a1");
}

TEST(Checkpoint, Folder) {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes(8);
  WriteSafetensors(folder / "model.safetensors", {{"a", DType::kF32, {2}, bytes}});
  PutFile(folder / "config.json", "{}");
  const Checkpoint checkpoint(folder.path());
  EXPECT_THAT(checkpoint.names(), ElementsAre("a"));
  EXPECT_NE(checkpoint.Find("a"), nullptr);
  EXPECT_EQ(checkpoint.FindQuantized("a"), nullptr);
  EXPECT_EQ(checkpoint.quantized(), nullptr);
  EXPECT_EQ(checkpoint.total_bytes(), 8);
  EXPECT_EQ(checkpoint.ContentHash(), CheckpointFiles(folder.path()).ContentHash());
  EXPECT_EQ(CheckpointText(folder.path(), "config.json"), "{}");
  EXPECT_EQ(CheckpointText(folder.path(), "tokenizer.model"), std::nullopt);
  EXPECT_NO_THROW(checkpoint.Release("a"));
  EXPECT_THROW(checkpoint.Release("b"), Error);
}

TEST(Checkpoint, QuantizedFile) {
  const TemporaryFolder folder;
  const QuantizedMatrixBuffer matrix = RandomQuantized(Format::kInt4, 3, 64, 32, 1);
  {
    QuantizedCheckpointWriter file(folder / "q.h5", {"p", "h", "rtn", "s", "x", ""});
    file.AddFile("config.json", "{ }");
    file.AddMatrix("m", matrix.view(), *ParseGranularity("group32"));
    const std::vector<std::byte> bytes(8);
    file.AddTensor({"a", DType::kF32, {2}, bytes});
    file.Commit();
  }
  const Checkpoint checkpoint(folder / "q.h5");
  EXPECT_THAT(checkpoint.names(), ElementsAre("a", "m"));
  EXPECT_TRUE(checkpoint.Has("m"));
  EXPECT_EQ(checkpoint.Find("m"), nullptr);
  ASSERT_NE(checkpoint.FindQuantized("m"), nullptr);
  EXPECT_EQ(checkpoint.FindQuantized("m")->group, 32);
  EXPECT_EQ(checkpoint.total_bytes(), 8 + 3 * 32 + 3 * 2 * 4);
  EXPECT_EQ(checkpoint.ContentHash(), Sha256OfFile(folder / "q.h5"));
  EXPECT_EQ(CheckpointText(folder / "q.h5", "config.json"), "{ }");
  EXPECT_NO_THROW(checkpoint.Release("m"));
}

TEST(Checkpoint, NeitherIsRefusedWithSomethingToTry) {
  const TemporaryFolder folder;
  const auto refused = [](const std::filesystem::path& path, const char* why) {
    EXPECT_THAT(Call([&] { CheckpointText(path, "config.json"); }), ThrowsMessage<Error>(HasSubstr(why)));
    EXPECT_THAT(Call([&] { Checkpoint checkpoint(path); }), ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused(folder / "none", "/none: no such folder; expected a checkpoint folder");
  for (const char* name : {"text", "model.safetensors", "pytorch_model.bin"}) PutFile(folder / name, "hello");
  refused(folder / "text", "/text: got a text, expected a MODEL: a checkpoint folder, a file of tare quantize");
  PutFile(folder / "zeros", std::string(9, '\0'));
  refused(folder / "zeros", "not an HDF5 file");
  std::filesystem::create_directory(folder / "c");
  PutFile(folder / "c/config.json", "{ }");
  refused(folder / "c/config.json", ("expected its folder; try " + (folder / "c").string()).c_str());
  refused(folder / "model.safetensors", ("expected its folder; try " + folder.path().string()).c_str());
  refused(folder / "pytorch_model.bin", "got a pickle, which Tare never reads");
  refused("model.gguf", "model.gguf: no such file; expected a GGUF file");
  refused("Org/Name-1B", "; to download one: hf download Org/Name-1B --local-dir Name-1B");
  refused("rtn.h5", "rtn.h5: no such file; expected a file of tare quantize");
  refused("4", "; if it is a value of an option, lists have commas");
  EXPECT_THAT(Call([&] { Checkpoint checkpoint("own.txt"); }),
              ThrowsMessage<Error>(testing::Not(HasSubstr("hf download"))));
  refused("Name-1B", "; to download one: hf download ORG/Name-1B --local-dir Name-1B");
}

// By what it is and not by its name.
TEST(Checkpoint, AQuantizedFileMayHaveAnyName) {
  const TemporaryFolder folder;
  {
    QuantizedCheckpointWriter file(folder / "q.bin", {"p", "h", "rtn", "s", "x", ""});
    file.AddFile("config.json", "{ }");
    file.Commit();
  }
  EXPECT_EQ(CheckpointText(folder / "q.bin", "config.json"), "{ }");
}

}  // namespace
}  // namespace tare::checkpoint_test
