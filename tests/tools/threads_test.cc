// SPDX-License-Identifier: Apache-2.0
// A fixed list of commands writes the same bytes on 1, 2 and 7 threads, whatever the machine has.
// In the released build alone: sanitized, it would take two minutes.
#include <gtest/gtest.h>

#include <map>

#include "kernels/linear/projector.h"
#include "tests/support/call_tare.h"
#include "tests/support/checkpoint.h"
#include "tests/support/golden.h"

namespace tare::threads_test {
namespace {

namespace fs = std::filesystem;

// JSON says the command that made it.
std::string WithoutCommand(std::string text) {
  const size_t line = text.find("  \"command\": ");
  return line == text.npos ? text : text.erase(line, text.find('\n', line) + 1 - line);
}

// The files of the list, by name.
std::map<std::string, std::string> FilesOn(const std::string& threads, const std::string& text) {
  const TemporaryFolder folder;
  const std::string model = PairFolder("novels-differential"), out = folder / "";
  const std::string needles = PairFolder("needles-4.jsonl"), tasks = "perplexity=" + text + ",choice=" + needles;
  const std::vector<std::vector<std::string>> commands = {
      {"stats", model, "--input", text, "--tokens", "64", "--formats", "int8/row,int4/head", "--calibrate", "int8",
       "--out", out + "s.h5"},
      {"eval", model, "--tasks", tasks, "--tokens", "128", "--limit", "1", "--json", out + "f32.json"},
      {"eval", model, "--tasks", tasks, "--tokens", "128", "--limit", "1", "--plan",
       "attn_logits=int4/row,weights=int4/group16,linear_in=int8/token", "--json", out + "simulated.json"},
      {"eval", model, "--tasks", tasks, "--tokens", "128", "--limit", "1", "--executed", "--plan", "int8", "--json",
       out + "executed.json", "--records", out + "records.jsonl"},
      {"eval", model, "--tasks", tasks, "--tokens", "128", "--limit", "1", "--math",
       HasProducts(Math::kBf16) ? "bf16" : "f32", "--json", out + "bf16.json"},
      {"dump", model, "--input", text, "--tokens", "40", "--sites", "logits,layer_out", "--out", out + "d.h5"},
      {"quantize", model, "--plan", "weights=int4/channel", "--method", "hadamard+gptq+quantease", "--calibrate", text,
       "--tokens", "128", "--out", out + "q.h5"},
      {"eval", out + "q.h5", "--tasks", tasks, "--tokens", "128", "--limit", "1", "--executed", "--plan",
       "linear_in=int8/token", "--json", out + "q.json"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--threads", threads});
    const Outcome outcome = CallTare(command);
    EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(command) << outcome.err;
  }
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder.path()))
    files[entry.path().filename().string()] = WithoutCommand(GetFile(entry.path()));
  return files;
}

TEST(Threads, ChangeNoByte) {
  const TemporaryFolder folder;
  PutFile(folder / "text", GetFile(PairFolder("heldout.txt")).substr(0, 3000));
  const std::string text = folder / "text";
  const std::map<std::string, std::string> one = FilesOn("1", text);
  EXPECT_EQ(one.size(), 9u);
  for (const char* threads : {"2", "7"}) {
    const std::map<std::string, std::string> more = FilesOn(threads, text);
    ASSERT_EQ(more.size(), one.size());
    for (const auto& [name, bytes] : one) EXPECT_TRUE(more.at(name) == bytes) << name << " on " << threads;
  }
}

}  // namespace
}  // namespace tare::threads_test
