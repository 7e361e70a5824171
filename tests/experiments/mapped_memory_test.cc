// SPDX-License-Identifier: Apache-2.0
// Weights stand in memory once: what packed codes or copies for a call were made of is given back, so that of a mapped
// file no more than about one layer stays there.
// In the released build alone: sanitizers map files in their own ways.
#if !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "experiments/export/gguf/export.h"
#include "experiments/model/plan_run.h"
#include "experiments/model/random_checkpoint.h"
#include "experiments/quantize/quantize.h"
#include "tests/support/checkpoint.h"
#include "tests/support/logits.h"

namespace tare::mapped_memory_test {
namespace {

// Bytes of the file at this path that are in this process's memory (proc(5), smaps: Rss).
int64_t InMemory(const std::filesystem::path& path) {
  std::ifstream maps("/proc/self/smaps");
  int64_t bytes = 0;
  bool of_file = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t kilobytes = 0;
    words >> first;
    if (first.find('-') != std::string::npos) of_file = line.ends_with(path.string());
    if (of_file && first == "Rss:" && words >> kilobytes) bytes += kilobytes * 1024;
  }
  return bytes;
}

class MappedMemory : public testing::Test {
 protected:
  static constexpr int64_t kLayers = 6, kHidden = 512, kFfn = 1024;
  static constexpr int64_t kLayerValues = 4 * kHidden * kHidden + 3 * kHidden * kFfn;

  MappedMemory() {
    const ModelConfig config{.family = "llama",
                             .vocabulary = 256,
                             .hidden = kHidden,
                             .ffn = kFfn,
                             .layers = kLayers,
                             .heads = 8,
                             .kv_heads = 8,
                             .head_dim = 64,
                             .norm_eps = 1e-5f,
                             .max_positions = 64};
    WriteRandomCheckpoint(folder_ / "m", config, WeightType::kF16, 1);
  }
  // How much of the file is in memory after a batch under the plan, in layers of layer_bytes.
  double LayersInMemory(const std::filesystem::path& model, const std::filesystem::path& file, const char* plan,
                        double layer_bytes, Math math = Math::kF32) {
    Model loaded(model, math, {.converted = 0});
    PlanRun run(Plan::Parse(plan), Carrying::kExecuted, ModelSitesOf(loaded));
    TokenBatch batch;
    batch.Add(0, std::vector<int32_t>{1, 5, 9, 20, 33});
    LogitsOf(loaded, batch, run.Begin(loaded));
    return static_cast<double>(InMemory(file)) / layer_bytes;
  }
  TemporaryFolder folder_;
};

// A page at each end of a matrix stays, and the system maps pages around the one that is read; one layer is enough.
constexpr double kMostLayers = 1;

TEST_F(MappedMemory, FloatsThatArePackedAreGivenBack) {
  const std::filesystem::path file = folder_ / "m" / "model.safetensors";
  EXPECT_LT(LayersInMemory(folder_ / "m", file, "weights=int8/channel,linear_in=int8/token", 2.0 * kLayerValues),
            kMostLayers);
  EXPECT_GT(LayersInMemory(folder_ / "m", file, "", 2.0 * kLayerValues), kLayers - 1) << "and only those";
}

TEST_F(MappedMemory, CodesThatArePackedOrDequantizedAreGivenBack) {
  const std::filesystem::path ours = folder_ / "q.h5", gguf = folder_ / "m.gguf";
  Quantize({folder_ / "m", Plan::Parse("weights=int8/channel"), ours}, {});
  ConvertToGguf(folder_ / "m", "Q8_0", "1", gguf);
  for (const std::filesystem::path& model : {ours, gguf}) {
    for (const char* plan : {"", "linear_in=int8/token"})
      EXPECT_LT(LayersInMemory(model, model, plan, kLayerValues), kMostLayers) << model << " " << plan;
  }
}

TEST_F(MappedMemory, FloatsOfAnotherTypeThanTheProductsAreGivenBack) {
  if (!HasProducts(Math::kBf16)) GTEST_SKIP() << "no products of bf16 here";
  EXPECT_LT(LayersInMemory(folder_ / "m", folder_ / "m" / "model.safetensors", "", 2.0 * kLayerValues, Math::kBf16),
            kMostLayers);
}

}  // namespace
}  // namespace tare::mapped_memory_test
#endif
