// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/dump.h"

#include <algorithm>
#include <limits>

#include "experiments/arrays/array_file.h"
#include "quant/base/message.h"
#include "quant/file/hdf5.h"

namespace tare {
namespace {

// Rows go to their place in the file as the forward pass shows them, from whichever thread.
class DumpWriter : public SiteVisitor {
 public:
  DumpWriter(Hdf5Writer& file, const ModelConfig& config, int64_t T, const std::set<std::string>& sites)
      : file_(file), heads_(config.heads), T_(T), pools_(config.pools), sites_(sites) {}

  bool Wants(Site site, std::optional<int>) const override { return sites_.contains(std::string(Name(site))); }

  void Visit(const SiteBlock& block, int) override {
    const std::string name = std::string(Name(block.site)) + (block.layer ? Formatted(".{}", *block.layer) : "");
    if (block.site == Site::kAttnLogits) {
      WriteLogits(name, block);
    } else if (pools_ && block.site == Site::kFinalNorm) {
      file_.WriteAt(name, block.sequence * block.stride, block.stride, block.values);
    } else {
      file_.WriteAt(name, (block.sequence * T_ + block.first_row) * block.stride, block.rows * block.stride,
                    block.values);
    }
  }

 private:
  void WriteLogits(const std::string& name, const SiteBlock& block) {
    std::vector<float> rows(block.rows * T_, -std::numeric_limits<float>::infinity());
    for (int64_t r = 0; r < block.rows; ++r) std::ranges::copy(block.Row(r), rows.begin() + r * T_ + block.First(r));
    const int64_t first = ((block.sequence * heads_ + *block.head) * T_ + block.first_row) * T_;
    file_.WriteAt(name, first, std::ssize(rows), rows.data());
  }

  Hdf5Writer& file_;
  const int64_t heads_, T_;
  const bool pools_;
  const std::set<std::string>& sites_;
};

void CreateDatasets(Hdf5Writer& file, const ModelConfig& c, int64_t B, int64_t T, const std::set<std::string>& sites) {
  const int64_t E = c.hidden, V = c.Outputs(), H = c.heads, states = c.pools ? 1 : T;  // after the layers
  if (sites.contains("logits")) file.CreateDataset("logits", DType::kF32, {B, states, V});
  if (sites.contains("embed")) file.CreateDataset("embed", DType::kF32, {B, T, E});
  if (sites.contains("final_norm")) file.CreateDataset("final_norm", DType::kF32, {B, states, E});
  std::vector<int64_t> stream{B, T, E};
  if (c.streams > 1) stream.insert(stream.begin() + 2, c.streams);
  for (int i = 0; i < c.layers; ++i) {
    if (sites.contains("layer_out")) file.CreateDataset(Formatted("layer_out.{}", i), DType::kF32, stream);
    if (sites.contains("attn_logits") && c.KeysLayer(i) >= 0)
      file.CreateDataset(Formatted("attn_logits.{}", i), DType::kF32, {B, H, T, T});
  }
}

// The rows that llama.cpp keeps of each sequence.
void WriteBase(Model& model, PlanRun& run, const std::vector<ScoredSequence>& sequences, const BaseShape& shape,
               BaseFileWriter file, const Progress& progress) {
  const int64_t T = shape.positions;
  ForwardAll(model, run.Begin(model, progress), sequences, progress, [&](const TokenBatch& batch) {
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < batch.Rows(); ++row) {
      if (row % T >= shape.First() && row % T < T - 1) rows.push_back(row);
    }
    model.VocabularyLogits(rows, [&](size_t i, const float* logits, int) {
      file.Write(batch.sequences.front().index + rows[i] / T, rows[i] % T,
                 {logits, static_cast<size_t>(shape.vocabulary)});
    });
  });
  file.Commit();
}

}  // namespace

void Dump(Model& model, PlanRun& run, const std::vector<ScoredSequence>& sequences, const std::set<std::string>& sites,
          const std::filesystem::path& out, const Progress& progress, const DumpOrigin& origin) {
  const ModelConfig& c = model.config();
  run.RefuseCache("dump");
  if (run.carrying() == Carrying::kExecuted && sites.contains("attn_logits"))
    Fail("dump: executed attention keeps no attn_logits; try other --sites, or simulate the plan");
  const auto B = static_cast<int64_t>(sequences.size()), T = static_cast<int64_t>(sequences.at(0).tokens.size());
  std::vector<int64_t> ids;
  for (const ScoredSequence& s : sequences) {
    if (std::ssize(s.tokens) != T)
      Fail("dump: got sequences of {} and {} tokens, expected one length; try --limit or another --window", T,
           s.tokens.size());
    ids.insert(ids.end(), s.tokens.begin(), s.tokens.end());
  }

  if (IsBaseFile(out)) {
    if (c.pools)
      Fail("dump: got {}, which gives one row for an image, expected a language model; try a name.h5", c.family);
    const BaseShape shape{T, c.Outputs(), B};
    return WriteBase(model, run, sequences, shape, {out, shape, ids}, progress);
  }
  Hdf5Writer file(out);
  file.SetAttribute("", "schema", "tare.dump/1");
  file.SetAttribute("", "model", model.Name());
  file.SetAttribute("", "weights_sha256", model.files().ContentHash());
  file.SetAttribute("", "plan", run.plan().canonical());
  file.SetAttribute("", "carried", run.carrying() == Carrying::kExecuted ? "executed" : "simulated");
  file.SetAttribute("", "math", model.math() == Math::kBf16 ? "bf16" : "f32");
  for (const auto& [key, value] : origin) file.SetAttribute("", key, value);
  file.WriteDataset("input_ids", DType::kI64, {B, T}, ids.data());
  CreateDatasets(file, c, B, T, sites);

  DumpWriter writer(file, c, T, sites);
  const SiteVisitors planned = run.Begin(model, progress);
  std::vector<SiteVisitor*> visitors(planned.begin(), planned.end());
  visitors.push_back(&writer);
  ForwardAll(model, visitors, sequences, progress, [&](const TokenBatch& batch) {
    if (!sites.contains("logits")) return;
    const int64_t step = c.pools ? T : 1;  // from one state after the layers to the next
    std::vector<int64_t> rows;
    for (int64_t row = step - 1; row < batch.Rows(); row += step) rows.push_back(row);
    const int64_t V = c.Outputs(), first = batch.sequences.front().index * T / step;
    model.VocabularyLogits(rows, [&](size_t i, const float* logits, int) {
      file.WriteAt("logits", (first + static_cast<int64_t>(i)) * V, V, logits);
    });
  });
  file.Commit();
}

}  // namespace tare
