// SPDX-License-Identifier: Apache-2.0
// Turns a checkpoint into a quantized checkpoint by the steps of a method: equivalent weights, then codes.
//
// Memory, besides the mapped files: round to nearest and hadamard hold one tensor (equivalent weights go through an f32
// file beside the result). cayley holds the second moments that rotated_error.h counts, and has such a file to itself.
// With a text, methods hold one layer's dequantized weights and, for one input of linear layers at a time, the second
// moments and their factors, at most 32 bytes per value; of experts, the second moments of as many at once as fit into
// 1 GiB. autoround holds no moments, and some 40 bytes for each weight of a layer. The calibration's residual streams
// and as much again, what o_proj or gate_proj reads (gptaq and autoround: both twice), are on the disk.
#pragma once

#include "experiments/passes/progress.h"
#include "experiments/quantize/method.h"

namespace tare {

// Reads the model once, hashing and checking it. Then processes layers in order, calibrating each on the output of the
// quantized layers before it. Throws Error, leaving nothing under `out`, if anything is wrong with the model, the plan
// or the method; after RequestStop it says which layers are kept.
QuantizeSummary Quantize(const QuantizeJob& job, const Progress& progress);

}  // namespace tare
