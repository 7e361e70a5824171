// SPDX-License-Identifier: Apache-2.0
// A matrix of Tare's codes as the tensors of a module of compressed-tensors, by layout (scheme.h). Values
// are those of the codes, bit for bit: scales are written as they are, in f32 where Tare has f32. NVFP4 alone has its
// second scale as a divisor; the f32 nearest to its inverse makes values that may be 2^-22 of them away.
//
// Asymmetric schemes (+zero) add X.weight_zero_point: packed along rows beside packed integers, int8 beside bytes.
// Codes and zero points from 0 are stored less 2^(bits - 1), as signed ones are.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

#include "experiments/export/compressed_tensors/scheme.h"
#include "quant/base/aligned.h"
#include "quant/file/safetensors.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

struct NewModule {
  std::string name;  // X
  std::vector<TensorView> tensors;
};

// Keeps the bytes of modules' tensors.
class ModuleMemory {
 public:
  // Bytes of a type and shape, of zeros.
  std::byte* Add(NewModule& module, const std::string& part, DType dtype, std::vector<int64_t> shape);

 private:
  std::deque<AlignedBuffer<std::byte>> buffers_;
};

// `where` starts messages. Throws Error for rows that the layout cannot hold.
NewModule ModuleOf(const std::string& module, const QuantizedMatrix& matrix, const CompressedScheme& scheme,
                   ModuleMemory& memory, const std::string& where);

// The f32 g that makes a / g nearest to a * of_tensor for E4M3's values a.
float DivisorFor(float of_tensor);

}  // namespace tare
