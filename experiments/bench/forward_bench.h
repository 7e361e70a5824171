// SPDX-License-Identifier: Apache-2.0
// Speed of a forward pass (with every row's logits) as a share of oneDNN's matmul, timed in turn. Unmasked work counts:
//
//   flop = 2 R (values of all projections + head + patch embedding)
//          + sum over sequences, layers, maps of pairs (2 d + 2 width of V)
#pragma once

#include <cstdint>
#include <filesystem>

#include "experiments/model/model.h"

namespace tare {

struct ForwardBench {
  int64_t batch = 4;
  int64_t tokens = 512;
  int repetitions = 7;
};

struct ForwardTiming {
  double seconds = 0, spread = 0;  // median; (largest - smallest) / median
  double tokens_per_second = 0;
  double gflops = 0, matmul_gflops = 0;  // medians
  double share = 0;                      // gflops / matmul_gflops
};

// Random images, kept in the folder: TimeForward of a vision tower batches them, 1 + config.Patches() tokens each.
void ShowRandomImages(Model& tower, const std::filesystem::path& folder, int64_t count);

double ForwardFlop(const ModelConfig& config, int64_t batch, int64_t tokens);
ForwardTiming TimeForward(Model& model, const ForwardBench& bench, SiteVisitors visitors = {});

}  // namespace tare
