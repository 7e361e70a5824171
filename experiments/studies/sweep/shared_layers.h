// SPDX-License-Identifier: Apache-2.0
// Which layers the runs of a sweep need not repeat. Rules that select layers from l on leave the layers before l as
// they are, so each run goes on where its plan first differs from that of an earlier run of the same task
// (experiments/model/batch.h). Of `tare attribute --by layer` each part alone goes on from f32, and the plan
// without it from the whole plan: of L layers (L - 1) / (2 L + 2) are not repeated, 30 % of 4 and 47 % of 32.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/model/batch.h"
#include "experiments/tasks/task.h"

namespace tare {

struct SharingRun {
  const Task* task = nullptr;
  const Plan* plan = nullptr;
};

class SharedLayers {
 public:
  // In the order in which they run, on one model with so many layers. The plans are carried out alike.
  SharedLayers(const std::vector<SharingRun>& runs, int layers);

  // Layers before the first in which the run differs from all earlier runs of its task; 0 for the first run.
  int Before(size_t run) const { return before_[run]; }
  // What the run keeps for later ones: streams before `most` layers at most; if they go on from more, before some at
  // even distances among these.
  KeptStreams::Run Of(size_t run, int64_t most) const;

 private:
  bool Share(size_t a, size_t b, int layer) const {
    return runs_[a].task == runs_[b].task &&
           names_[a][static_cast<size_t>(layer)] == names_[b][static_cast<size_t>(layer)];
  }

  std::vector<SharingRun> runs_;
  int layers_;
  std::vector<std::vector<int>> names_;  // by run and layer, of the stream before it
  std::vector<int> before_;
};

}  // namespace tare
