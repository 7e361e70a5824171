// SPDX-License-Identifier: Apache-2.0
// What the steps of a layer are made of: products whose inputs visitors see, loops over rows, buffers that grow.
#pragma once

#include <functional>
#include <span>

#include "experiments/model/decoder.h"

namespace tare {

// Several projections of one input x [R, columns]. Visitors of a projection's input see, and may change, their own
// copy. Of a part of the layer, here is where it may begin, with x as it was kept, and where it may end, before the
// products.
struct SeenProjection {
  Site site;
  const LinearWeights& linear;
  float* y;
};

void ProjectSeen(const LayerCall& call, float* x, int64_t columns, std::span<const SeenProjection> all);

// The projections of x [rows, columns], by weights as stored or as a plan has them; no visitor sees x.
void ProjectRows(const LayerCall& call, const float* x, int64_t rows, std::span<const SeenProjection* const> all);

// Whether packed codes multiply so many rows: a rule has their inputs in integers, or the rows are few and no values in
// floating point stand ready. planned: may be null.
bool CodesServe(const PlannedLinear* planned, const LinearWeights& linear, int64_t rows, Math math);

// body(row) for all rows of the batch, from several threads; for none where the step does not run.
void ForRows(const LayerCall& call, const std::function<void(int64_t row)>& body);

// Holds at least [rows, columns]; zeroed when it grows, so that padding rows hold finite values.
void GrowRows(AlignedBuffer<float>& buffer, int64_t rows, int64_t columns);

}  // namespace tare
