// SPDX-License-Identifier: Apache-2.0
// Turns a checkpoint into a quantized checkpoint by the steps of a method: equivalent weights, then codes.
//
// Memory, besides the mapped files: round to nearest and hadamard hold one tensor (equivalent weights go through an f32
// file beside the result). cayley holds the second moments that rotated_error.h counts, and has such a file to itself.
// Calibrated methods hold the calibration's residual streams and as much again, what o_proj or gate_proj reads (gptaq
// and autoround: both twice), one layer's dequantized weights and, for one input of linear layers at a time, the second
// moments and their factors, at most 32 bytes per value; of experts, the second moments of as many at once as fit into
// 1 GiB. autoround holds no moments, and some 40 bytes for each weight of a layer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/passes/progress.h"
#include "experiments/passes/sequences.h"
#include "experiments/quantize/calibration/calibration_texts.h"
#include "experiments/quantize/method.h"
#include "quant/plan/plan.h"

namespace tare {

struct QuantizeJob {
  std::filesystem::path model;  // a checkpoint folder, or a file without codes that an earlier job made
  Plan plan;                    // for weights; rules for activations are stored for later runs of the model
  std::filesystem::path out;
  QuantizeMethod method = {};
  CalibrationTexts calibration = {};      // for methods that need one
  std::filesystem::path statistics = {};  // instead, for smoothquant with a given alpha
  WindowOptions windows = {};             // for the calibration
  std::filesystem::path parts = {};       // folder of finished parts meanwhile; empty: OUT.parts
  std::string model_sha256 = {};          // the model's ContentHash, of who has read it whole; empty: it is read
  bool resume = false;                    // resumes an interrupted job; the result is byte-identical
};

// How many calibration tokens reached each expert of a layer.
struct ReachedExperts {
  int layer = 0;
  std::vector<int64_t> tokens;
};

struct QuantizeSummary {
  int64_t matrices = 0;        // quantized ones
  int64_t values = 0;          // in them
  int64_t bytes_before = 0;    // of all tensors
  int64_t bytes_after = 0;     // with codes and scales
  double relative_error = 0;   // ||W - Q|| / ||W|| over all matrices together
  double bits_per_weight = 0;  // of the quantized matrices, with scales
  // Of calibrated methods, by layer. Weights of an expert that no token reached are rounded to nearest.
  std::vector<ReachedExperts> experts = {};
  std::vector<CalibratedOn> calibration = {};  // empty: without a text
};

// Reads the model once, hashing and checking it. Then processes layers in order, calibrating each on the output of the
// quantized layers before it. Throws Error, leaving nothing under `out`, if anything is wrong with the model, the plan
// or the method; after RequestStop it says which layers are kept.
QuantizeSummary Quantize(const QuantizeJob& job, const Progress& progress);

}  // namespace tare
