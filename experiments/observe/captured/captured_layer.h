// SPDX-License-Identifier: Apache-2.0
// Attention of one layer of another program: q, k and v of a captured file, for plans, kernels and maps, with the
// output that they give in f32. A captured head_out must agree with it: then heads, scale, lambda and mask are right.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "experiments/model/layer_attention.h"
#include "experiments/observe/captured/captured_statistics.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/significance/mean_error.h"

namespace tare {

class CapturedLayer {
 public:
  // first_sequence: of the file, in the whole input. Throws Error, naming file, layer and array, where there is no q, k
  // or v, where they do not fit the heads, for values that are not finite, and where a captured head_out is another.
  CapturedLayer(const CapturedFile& file, const CapturedLayout& layout, int layer, size_t first_sequence);
  CapturedLayer(CapturedLayer&&) = default;

  int layer() const { return layer_; }
  const std::string& where() const { return where_; }  // "c.safetensors: layer 0", with the file's path
  // The tokens of all sequences, without padding, one after another; dense.
  const AttentionProblem& problem() const { return problem_; }
  const std::vector<AttentionSequence>& sequences() const { return sequences_; }  // none is empty

  // Shows one of the sequences under a plan to an observer, as the only one of its batch.
  void Show(const AttentionSequence& sequence, SimulatedAttention& run, SiteVisitor& observer);
  // The output, [R][output heads][width], until the next call of any of these.
  const std::vector<float>& Under(SimulatedAttention& run);
  const std::vector<float>& Executed(const ExecutedPlan& plan);
  // Appends each sequence's sums of squares: of the output's differences from that in f32, and of that.
  void AddLosses(const std::vector<float>& output, WindowLosses& losses) const;

 private:
  const CapturedArray* Find(const CapturedFile& file, Site site) const;
  HeadsView<const float> Take(const CapturedFile& file, Site site);
  void CheckMaps(const CapturedLayout& layout) const;
  void SetLambda(const CapturedFile& file, const CapturedAttention& how);
  void CheckOutput(const CapturedFile& file) const;

  int layer_;
  std::string where_;
  std::map<Site, std::vector<float>> rows_;
  std::vector<OutputHead> table_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> out_, exact_;
  AttentionProblem problem_;
};

// The mean of the losses. Throws Error, starting with `where`, for an output of zeros.
double MeanOf(const WindowLosses& losses, const std::string& where);

// Calls use with each layer of each file that has q, and with all such layers of the file, ascending. Throws Error for
// a file without q.
void ForCapturedLayers(const CapturedInput& input, const Progress& progress,
                       const std::function<void(CapturedLayer& attention, const std::vector<int>& layers)>& use);

}  // namespace tare
