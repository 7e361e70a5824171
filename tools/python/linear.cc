// SPDX-License-Identifier: Apache-2.0
// tare.Linear: a quantized weight, packed once, times activations that are quantized as they come, in integers.
#include <optional>

#include "kernels/linear/quantized_linear.h"
#include "quant/base/message.h"
#include "tools/python/module.h"

namespace nb = nanobind;

namespace tare {
namespace {

class Linear {
 public:
  Linear(const Quantized& weight, const std::string& activations, int threads) : threads_(threads) {
    const QuantizedMatrix& matrix = weight.matrix;
    if (weight.shape.size() != 2 || matrix.rotation != nullptr || !PackedMatrix::Takes(matrix))
      Fail("weight: got {} {}, expected a matrix of integers in groups of a multiple of 16, without +hadamard",
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

void AddLinear(nb::module_& module) {
  using namespace nb::literals;
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
