// SPDX-License-Identifier: Apache-2.0
// tare.quantize: rounds by a plan's rule, as tare quantize --method rtn; tare.gptq; tare.Linear: multiplies by these.
#include <nanobind/stl/vector.h>

#include <optional>

#include "experiments/model/linear/weight_matrix.h"
#include "experiments/plan/resolved_plan.h"
#include "kernels/linear/quantized_linear.h"
#include "quant/algorithms/gptq.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/format/hadamard.h"
#include "quant/plan/plan.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

Rule RuleOf(const std::string& text) {
  const Plan plan = Plan::Parse(text);
  if (plan.rules().size() != 1 || !HasCodes(plan.rules().front().format))
    Fail("rule '{}': got {} rules, or f32, expected one rule with a format; try int4/group64", text,
         plan.rules().size());
  Rule rule = plan.rules().front();
  if (rule.options != RuleOptions{.hadamard = rule.options.hadamard, .mse = rule.options.mse})
    Fail("rule '{}': got {}, expected no option but +mse and +hadamard", text, TextOf(rule.options));
  if (HasZeroPoint(rule))
    Fail("rule '{}': got a zero point, expected a format whose scale alone gives its values; try int8", text);
  if (IsWeight(rule.sites.front())) return rule;
  using enum Granularity::Kind;
  Granularity& scale = rule.granularity;  // of a weight, whose rows are tokens here
  if (scale.kind == kToken || scale.kind == kRow)
    scale = {kChannel};
  else if (scale.kind == kBlock)
    scale.kind = kGroup;
  else if (scale.kind != kTensor && scale.kind != kGroup)
    Fail("rule '{}': got one scale per {}, expected scales along the last dimension; try another order of dimensions",
         text, Name(scale));
  return rule;
}

WeightType WeightTypeOf(const AnyArray& array) {
  const DType type = FileType(array, "x");
  if (type == DType::kF32) return WeightType::kF32;
  if (type == DType::kBF16) return WeightType::kBf16;
  if (type == DType::kF16) return WeightType::kF16;
  Fail("x: got {}, expected float32, float16 or bfloat16; try x.astype('float32')", TypeName(array.dtype()));
}

// [..., n] as rows of n.
DenseMatrix RowsOf(const AnyArray& array) {
  const std::vector<int64_t> shape = ShapeOf(array);
  if (shape.empty() || array.size() == 0) Fail("x: got shape {}, expected [..., n]", ShapeText(shape));
  if (!IsContiguous(array))
    Fail("x: got strides with gaps, or another order, expected row-major values; try numpy.ascontiguousarray(x)");
  return {array.data(), WeightTypeOf(array), static_cast<int64_t>(array.size()) / shape.back(), shape.back()};
}

// Unsigned codes would make values below 0 zeros.
void RequireShares(const DenseMatrix& values) {
  ParallelFor(static_cast<size_t>(values.out), [&](size_t index, int) {
    std::vector<float> row(static_cast<size_t>(values.in));
    RowAsFloat(values, static_cast<int64_t>(index), row.data());
    if (std::ranges::any_of(row, [](float v) { return v < 0; }))
      Fail("x: got a value below 0 in row {}, expected none for unsigned codes; try int8", index);
  });
}

Quantized Quantize(nb::handle x, const std::string& text, int threads) {
  const AnyArray array = ArrayOf(x, "x");
  const DenseMatrix values = RowsOf(array);
  const Rule rule = RuleOf(text);
  const auto buffer = InTurn(threads, [&](Turn&) {
    if (IsInteger(rule.format) && Info(rule.format).min_code == 0 && !HasOffset(rule.format)) RequireShares(values);
    return std::make_shared<QuantizedMatrixBuffer>(QuantizeByRule(values, rule, "x"));
  });
  return {buffer->view(), ShapeOf(array), buffer};
}

Quantized Gptq(nb::handle x, nb::handle hessian, const std::string& text, double damping, int threads) {
  const AnyArray array = ArrayOf(x, "x"), moments = FloatsOf(hessian, "hessian", 2);
  const DenseMatrix values = RowsOf(array);
  const Rule rule = RuleOf(text);
  if (rule.granularity.kind == Granularity::Kind::kTensor || rule.options.hadamard || !IsInteger(rule.format))
    Fail("rule '{}': expected integers with a scale per channel or group and no +hadamard; try int4/group64", text);
  if (ShapeOf(moments) != std::vector{values.in, values.in} || !IsContiguous(moments))
    Fail("hessian: got shape {}, or gaps, expected row-major [{}, {}]", ShapeText(ShapeOf(moments)), values.in,
         values.in);
  const float* const begin = static_cast<const float*>(moments.data());
  const auto buffer = InTurn(threads, [&](Turn&) {
    const ReadRow read = [&](int64_t row, float* to) { RowAsFloat(values, row, to, "x"); };
    const auto matrix = std::make_shared<QuantizedMatrixBuffer>(MatrixFor(rule, values.out, values.in, read));
    GptqFactor({begin, begin + values.in * values.in}, values.in, damping, "hessian")
        .Round(read, EndsBy(rule.options.mse ? ClipChoice::kLeastSquares : ClipChoice::kAbsmax, rule.format), *matrix);
    return matrix;
  });
  return {buffer->view(), ShapeOf(array), buffer};
}

nb::object Dequantize(const Quantized& quantized, int threads) {
  const QuantizedMatrix& m = quantized.matrix;
  const NewArray made(quantized.shape);
  InTurn(threads, [&](Turn&) {
    ParallelFor(static_cast<size_t>(m.out), [&](size_t row, int) {
      DequantizeRow(m, static_cast<int64_t>(row), made.values + static_cast<int64_t>(row) * m.in, "codes");
    });
  });
  return made.object;
}

template <typename T>
using View = nb::ndarray<nb::numpy, const T>;

// What the object holds, as it lies; the array keeps the object.
template <typename T>
View<T> Held(nb::handle self, const T* data, int64_t rows, int64_t columns) {
  const size_t shape[] = {static_cast<size_t>(rows), static_cast<size_t>(columns)};
  return {data, 2, shape, self};
}

const QuantizedMatrix& MatrixOf(nb::handle self) { return nb::cast<const Quantized&>(self).matrix; }

nb::object Codes(nb::handle self) {
  const QuantizedMatrix& m = MatrixOf(self);
  return nb::cast(Held(self, m.codes, m.out, static_cast<int64_t>(m.RowBytes())));
}

// As floats, whatever they are stored as.
nb::object Scales(nb::handle self) {
  const QuantizedMatrix& m = MatrixOf(self);
  if (m.scales != nullptr) return nb::cast(Held(self, m.scales, m.out, m.Groups()));
  const NewArray made({m.out, m.Groups()});
  for (int64_t row = 0; row < m.out; ++row) {
    for (int64_t g = 0; g < m.Groups(); ++g) made.values[row * m.Groups() + g] = m.ScaleOf(row, g);
  }
  return made.object;
}

// One value per group where the format has them.
template <typename T>
nb::object OfGroups(nb::handle self, const T* values) {
  const QuantizedMatrix& m = MatrixOf(self);
  return values == nullptr ? nb::none() : nb::cast(Held(self, values, m.out, m.Groups()));
}

nb::object Zeros(nb::handle self) { return OfGroups(self, MatrixOf(self).zeros); }
nb::object Minima(nb::handle self) { return OfGroups(self, MatrixOf(self).minima); }

nb::object RotatedRun(nb::handle self) {
  const Hadamard* const rotation = MatrixOf(self).rotation;
  return rotation == nullptr ? nb::none() : nb::cast(rotation->run());
}

std::string Text(const Quantized& q) {
  return Formatted("<tare.Quantized {} {} groups of {}, {} bytes>", Name(q.matrix.format), ShapeText(q.shape),
                   q.matrix.group, q.matrix.Bytes());
}

// A weight, packed once, times activations that are quantized as they come, in integers.
class Linear {
 public:
  Linear(const Quantized& weight, const std::string& activations, int threads) : threads_(threads) {
    const QuantizedMatrix& matrix = weight.matrix;
    if (weight.shape.size() != 2 || matrix.rotation != nullptr || matrix.branch.rank > 0 ||
        !PackedMatrix::Takes(matrix))
      Fail("weight: got {} {}, expected integers in groups of a multiple of 16, without +hadamard and svdquant",
           Name(matrix.format), ShapeText(weight.shape));
    const std::optional<Format> format = ParseFormat(activations);
    if (!format) Fail("activations: got '{}', expected int8, int6 or int4", activations);
    format_.format = *format;
    InTurn(threads, [&](Turn&) { weight_.emplace(matrix); });
  }

  nb::object Run(nb::handle x) {
    const AnyArray array = FloatsOf(x, "x", 2);
    if (static_cast<int64_t>(array.shape(1)) != weight_->in() || !IsContiguous(array))
      Fail("x: got shape {}, or gaps, expected row-major [tokens, {}]", ShapeText(ShapeOf(array)), weight_->in());
    const auto rows = static_cast<int64_t>(array.shape(0));
    const NewArray made({rows, weight_->out()});
    const QuantizedProjection projection{.weight = &*weight_, .y = made.values};
    InTurn(threads_,
           [&](Turn&) { linear_.Project(static_cast<const float*>(array.data()), rows, format_, {&projection, 1}); });
    return made.object;
  }

 private:
  int threads_;
  std::optional<PackedMatrix> weight_;
  TokenFormat format_;
  QuantizedLinear linear_;  // one turn at a time calls it
};

}  // namespace

void AddQuantize(nb::module_& module) {
  using namespace nb::literals;
  nb::class_<Quantized>(module, "Quantized",
                        "Codes and scales of values [..., n]: value = value of the code x scale; with zero points, "
                        "(code - zero) x scale; with minima, code x scale + minimum. Where "
                        "`hadamard` is a number, these are the values of rotated rows; dequantize() rotates them back.")
      .def_prop_ro("codes", Codes, "uint8 [rows, bytes of a row]: packed as in files; no copy",
                   nb::sig("def codes(self) -> numpy.ndarray"))
      .def_prop_ro("scales", Scales, "float32 [rows, groups of a row]", nb::sig("def scales(self) -> numpy.ndarray"))
      .def_prop_ro("zeros", Zeros, "uint8 [rows, groups of a row] of a rule with +zero, or None")
      .def_prop_ro("minima", Minima, "float32 [rows, groups of a row] of a rule with +min, or None")
      .def_prop_ro(
          "format", [](const Quantized& q) { return Name(q.matrix.format); },
          "the format's name in plans, with +full, +zero or +min after it")
      .def_prop_ro(
          "group", [](const Quantized& q) { return q.matrix.group; }, "values of a row that share a scale")
      .def_prop_ro("hadamard", RotatedRun,
                   "channels of a run that was rotated before it was rounded (+hadamard), or None",
                   nb::sig("def hadamard(self) -> int | None"))
      .def_prop_ro(
          "shape", [](const Quantized& q) { return nb::tuple(nb::cast(q.shape)); }, "of the values",
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "nbytes", [](const Quantized& q) { return q.matrix.Bytes(); },
          "bytes of codes, scales, zero points and minima")
      .def("dequantize", Dequantize, nb::kw_only(), "threads"_a = 0,
           "The values that the codes stand for, float32 in the original shape.",
           nb::sig("def dequantize(self, *, threads: int = 0) -> numpy.ndarray"))
      .def("__repr__", Text);
  module.def("quantize", Quantize, "x"_a.none(), "rule"_a, nb::kw_only(), "threads"_a,
             "Codes and scales by one rule SITE=FORMAT/GRANULARITY: see tare.quantize.");
  module.def("gptq", Gptq, "x"_a.none(), "hessian"_a.none(), "rule"_a, nb::kw_only(), "damping"_a, "threads"_a,
             "A weight [out, in] by GPTQ: see tare.gptq.");
  nb::class_<Linear>(module, "Linear",
                     "y = x W^T in integers: weight is a Quantized [out, in] of integers, packed once; each "
                     "token's activations are quantized to int8, int6 or int4 as they come. Like every call, calls "
                     "release the GIL and take turns. Raises ValueError for invalid input, and for NaN and infinities.")
      .def(nb::init<const Quantized&, const std::string&, int>(), "weight"_a, nb::kw_only(), "activations"_a = "int8",
           "threads"_a = 0,
           nb::sig("def __init__(self, weight: Quantized, *, activations: str = 'int8', threads: int = 0) -> None"))
      .def("__call__", &Linear::Run, "x"_a.none(), "x float32 [tokens, in] -> float32 [tokens, out]",
           nb::sig("def __call__(self, x: object) -> numpy.ndarray"));
}

}  // namespace tare
