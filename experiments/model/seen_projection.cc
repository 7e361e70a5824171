// SPDX-License-Identifier: Apache-2.0
#include "experiments/model/seen_projection.h"

#include <algorithm>

#include "experiments/model/show_sites.h"
#include "kernels/elementwise/rotate_rows.h"
#include "quant/base/formatted.h"
#include "quant/base/parallel.h"

namespace tare {
namespace {

// The weight as products of so many rows take it, in the memory, if the model keeps only its codes or another type.
WeightMatrix FloatWeight(const LayerCall& call, const SeenProjection& p, const PlannedLinear* planned, int64_t rows,
                         AlignedBuffer<char>& memory) {
  const WeightMatrix& weight = FloatOf(planned, p.linear.weight);
  if (!IsMadeForCalls(weight, call.projector.math()) || (rows == 1 && weight.data != nullptr)) return weight;
  if (rows > 1) {
    if (const std::optional<WeightMatrix> stored = StoredColumns(weight, call.projector)) return *stored;
  }
  return InFloat(weight, call.projector.math(), memory, Formatted("layer {}: weights of {}", call.layer, Name(p.site)));
}

// What packed weights multiply.
struct IntegerInput {
  const Hadamard* rotation = nullptr;  // null: as it is
  std::optional<TokenFormat> format;   // empty: weights alone, of few rows
  friend auto operator<=>(const IntegerInput&, const IntegerInput&) = default;
};

void ProjectIntegers(const LayerCall& call, const float* x, int64_t rows, const std::optional<TokenFormat>& format,
                     std::span<const QuantizedProjection> projections) {
  if (format) {
    call.a.quantized.Project(x, rows, *format, projections);
  } else {
    call.a.one_token.Project(x, rows, projections);
  }
}

}  // namespace

bool CodesServe(const PlannedLinear* planned, const LinearWeights& linear, int64_t rows, Math math) {
  if (planned == nullptr || !planned->packed) return false;
  if (planned->activation || rows == 1) return true;
  return rows <= kFewTokens && planned->dequantized.out == 0 &&
         (linear.when_used || IsMadeForCalls(linear.weight, math));
}

void ProjectRows(const LayerCall& call, const float* x, int64_t rows, std::span<const SeenProjection* const> all) {
  std::vector<std::unique_ptr<PlannedLinear>> made;  // for this call
  std::vector<Projection> in_float;
  std::map<IntegerInput, std::vector<QuantizedProjection>> in_integers;
  for (const SeenProjection* p : all) {
    const PlannedLinear* planned = p->linear.planned.get();
    const auto takes_packed = [&] { return CodesServe(planned, p->linear, rows, call.projector.math()); };
    if (!takes_packed() && p->linear.when_used)
      planned =
          made.emplace_back(PlannedLinear::Of(p->linear.weight, *p->linear.when_used, call.projector.math())).get();
    const float* bias = p->linear.bias.empty() ? nullptr : p->linear.bias.data();
    const bool packed = takes_packed();
    if (packed && !planned->order.empty()) {  // codes whose groups are no neighbours: inputs of their own
      const QuantizedProjection projection{&*planned->packed, bias, p->y};
      ProjectIntegers(call, planned->Inputs(x, rows, call.a.own_inputs), rows, planned->activation, {&projection, 1});
    } else if (packed) {
      in_integers[{planned->rotation, planned->activation}].push_back({&*planned->packed, bias, p->y});
    } else {
      in_float.push_back({FloatWeight(call, *p, planned, rows, call.a.dequantized.at(in_float.size())), bias, p->y});
    }
  }
  call.projector.Project(x, rows, in_float);
  for (const auto& [input, projections] : in_integers) {
    const float* inputs = x;
    if (input.rotation != nullptr) {
      call.a.own_inputs.Reserve(static_cast<size_t>(rows * input.rotation->size()));
      inputs = call.a.own_inputs.data();
      RotateRows(*input.rotation, x, rows, call.a.own_inputs.data());
    }
    ProjectIntegers(call, inputs, rows, input.format, projections);
  }
}

void ProjectSeen(const LayerCall& call, float* x, int64_t columns, std::span<const SeenProjection> all) {
  const int64_t rows = call.batch.Rows();
  std::vector<Site> sites;
  for (const SeenProjection& p : all) sites.push_back(p.site);
  if (call.part != nullptr) call.part->Begin(sites, x, static_cast<size_t>(rows * columns));
  if (!call.Runs()) return;
  const bool ends = call.part != nullptr && call.part->EndsBefore(sites);
  std::vector<const SeenProjection*> unseen;
  for (const SeenProjection& p : all) {
    const SeenProjection* one = &p;
    if (!AnyWants(call.visitors, p.site, call.layer)) {
      unseen.push_back(one);
      continue;
    }
    GrowRows(call.a.seen, rows, columns);
    std::copy_n(x, rows * columns, call.a.seen.data());
    ShowRows(call.visitors, p.site, call.layer, call.batch, call.a.seen.data(), columns);
    if (!ends) ProjectRows(call, call.a.seen.data(), rows, {&one, 1});
  }
  if (ends) return call.part->End(x, static_cast<size_t>(rows * columns));
  ProjectRows(call, x, rows, unseen);
}

void ForRows(const LayerCall& call, const std::function<void(int64_t row)>& body) {
  if (!call.Runs()) return;
  constexpr int64_t kRows = 16;
  const int64_t rows = call.batch.Rows();
  ParallelFor(static_cast<size_t>((rows + kRows - 1) / kRows), [&](size_t block, int) {
    const int64_t begin = static_cast<int64_t>(block) * kRows;
    for (int64_t row = begin; row < std::min(begin + kRows, rows); ++row) body(row);
  });
}

void GrowRows(AlignedBuffer<float>& buffer, int64_t rows, int64_t columns) {
  const auto size = static_cast<size_t>(PaddedRows(rows) * columns);
  if (size <= buffer.size()) return;
  buffer.Reset(size);
  std::fill_n(buffer.data(), size, 0.0f);
}

}  // namespace tare
