// SPDX-License-Identifier: Apache-2.0
// What another program would capture of a golden model's attention: q, k and v of its layers.
#pragma once

#include <numeric>
#include <vector>

#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/passes/sequences.h"
#include "tests/quant/file/temporary_folder.h"
#include "tests/support/arrays.h"
#include "tests/support/golden.h"
#include "tests/support/site_recorder.h"

namespace tare {

// The first layer of a model on one sequence: what it showed, and its q, k and v as an input.
struct CapturedModel {
  CapturedModel(const char* name, const ScoredSequence& sequence) {
    Model model(GoldenFolder(name));
    SiteVisitor* const look[] = {&seen};
    ForwardAll(model, look, {sequence}, {}, [](const TokenBatch&) {});
    std::map<std::string, TestArray> arrays;
    for (const auto& [key, of] : seen.sites) {
      if (key.layer != 0 || (key.site != Site::kQ && key.site != Site::kK && key.site != Site::kV)) continue;
      TestArray& array = arrays[std::string(Name(key.site)) + ".0"];  // heads ascend, [H,T,D]
      array.shape = {array.shape.empty() ? 1 : array.shape[0] + 1, std::ssize(of.rows),
                     std::ssize(of.rows.begin()->second)};
      for (const auto& [place, row] : of.rows) array.values.insert(array.values.end(), row.begin(), row.end());
    }
    std::string axes = "{}";
    if (const auto found = seen.sites.find({Site::kDifference, 0, 0, {}}); found != seen.sites.end()) {
      const Row& row = found->second.rows.begin()->second;  // maps sum to 1
      axes = R"({"attention": {"heads": "diffllama", "lambda": )" +
             std::to_string(1 - std::accumulate(row.begin(), row.end(), 0.0)) + "}}";
    }
    PutArrays(folder / "c.safetensors", arrays);
    PutFile(folder / "axes.json", axes);
    input = LoadCaptured({folder / "c.safetensors"}, CapturedLayout::Load(folder / "axes.json"));
  }

  TemporaryFolder folder;  // c.safetensors, axes.json
  Recorder seen;
  CapturedInput input;
};

}  // namespace tare
