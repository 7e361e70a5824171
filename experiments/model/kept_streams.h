// SPDX-License-Identifier: Apache-2.0
// Residual streams between layers that several runs of the same sequences share. Plans that say the same of the
// embedding and of all layers before layer d have the same stream at its input, bit for bit; the first run keeps it,
// and the later ones go on from there:
//
//   run     plan              layers of 4
//   first   f32               0 1 2 3     keeps the streams before layers 2 and 3
//   second  q[l2]=int4/token      2 3
//   third   q[l3]=int4/token        3
//
// Memory is bounded: what does not fit is not kept, and a run that finds nothing, or only a stream before an earlier
// layer, computes the rest itself.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "experiments/model/batch.h"

namespace tare {

class KeptStreams {
 public:
  // Values that are kept at most, of f32: 512 MiB, 12 layers of 10,220 tokens at a width of 1,024.
  static constexpr int64_t kMost = int64_t{1} << 27;
  explicit KeptStreams(int64_t most = kMost) : most_(most) {}

  // A stream is that before layer `first` (after the last layer: their number), `second` names all that it depends on
  // besides the tokens.
  using Name = std::pair<int, int>;
  struct Run {
    std::vector<int> names;   // by layer, and after the last
    std::set<int> kept;       // before which layers this run keeps its streams, 1 or more
    std::set<Name> expected;  // what this run or a later one can go on from; all others are dropped
  };
  void Begin(Run run);

  // Copies the latest of the kept streams of these tokens to x, [rows, E]; returns the layer that it is the input of,
  // 0 if none is kept.
  int Resume(const TokenBatch& batch, std::span<float> x) const;
  // x: the input of the layer in this run.
  void Keep(const TokenBatch& batch, int layer, std::span<const float> x);

  int64_t values() const { return values_; }

 private:
  using Sequences = std::vector<int64_t>;  // lengths and tokens of a batch

  static Sequences SequencesOf(const TokenBatch& batch);

  int64_t most_, values_ = 0;
  Run run_;
  std::map<Name, std::map<Sequences, std::vector<float>>> streams_;
};

}  // namespace tare
