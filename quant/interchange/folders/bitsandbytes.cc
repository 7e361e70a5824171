// SPDX-License-Identifier: Apache-2.0
// Matrices of bitsandbytes in four bits, NF4 and its FP4 (which is not E2M1). The matrix is flattened, two codes to a
// byte, the first high; a block of `blocksize` values shares a scale, and may go on in the next row:
//
//   X.weight                   u8 [out * in / 2, 1]
//   X.weight.quant_map         f32 [16], the value of each code
//   X.weight.absmax            f32 [blocks], or, quantized again, u8: map[code] * absmax of 256 blocks + offset
//   X.weight.nested_quant_map  f32 [256], and X.weight.nested_absmax f32 [blocks / 256]: of absmax
//   X.weight.quant_state.bitsandbytes__nf4 (or __fp4)  u8, JSON: shape, blocksize, quant_type, nested_blocksize,
//                              nested_offset
//
//   W = value[code] * absmax
#include "quant/interchange/folders/quantization_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::string_view kState = "weight.quant_state.bitsandbytes__";

// The f32 values of a small tensor, all finite.
std::vector<float> FiniteValues(const TensorView& tensor, const std::string& where) {
  std::vector<float> values(tensor.elements());
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) Fail("{}, index {}: got {}, expected finite numbers", where, i, values[i]);
  }
  return values;
}

// Scales of blocks; small beside the codes, so they are kept as f32.
struct Blocks {
  std::vector<float> map, scales;
  int64_t size = 64;
};

class FourBitMatrix : public ForeignMatrix {
 public:
  FourBitMatrix(int64_t out, int64_t in, std::string scheme, std::string where, Blocks blocks,
                std::vector<const TensorView*> tensors, const CheckpointFiles& files)
      : ForeignMatrix(out, in),
        scheme_(std::move(scheme)),
        where_(std::move(where)),
        blocks_(std::move(blocks)),
        tensors_(std::move(tensors)),
        files_(files) {}

  void Row(int64_t row, float* y) const override {
    const std::byte* codes = tensors_[0]->bytes.data();
    for (int64_t c = 0; c < in(); ++c) {
      const int64_t i = row * in() + c;
      const auto pair = static_cast<uint32_t>(codes[i / 2]);
      y[c] = blocks_.map[i % 2 == 0 ? pair >> 4 : pair & 15] * blocks_.scales[static_cast<size_t>(i / blocks_.size)];
      if (!std::isfinite(y[c])) Fail("{}, row {}, column {}: got {}, expected finite weights", where_, row, c, y[c]);
    }
  }
  std::string scheme() const override { return scheme_; }
  int64_t bytes() const override { return BytesOf(tensors_); }
  void Release() const override { files_.Release(*tensors_[0]); }

 private:
  std::string scheme_, where_;
  Blocks blocks_;
  std::vector<const TensorView*> tensors_;  // the codes first
  const CheckpointFiles& files_;
};

// Reads one module.
class FourBitReader {
 public:
  FourBitReader(const std::string& module, const std::string& type, ModuleTensors& tensors)
      : module_(module), type_(type), tensors_(tensors), where_(tensors.Where(module + ".weight")) {}

  std::unique_ptr<const ForeignMatrix> Read() {
    const TensorView& codes = Part("weight", DType::kU8);
    const TensorView& state = Part(std::string(kState) + type_, DType::kU8);
    const std::string where = tensors_.Where(state.name);
    const Json json = ParseOrderedJson(AsText(state.bytes), where);
    SchemeKeys keys(json, where);
    keys.Only("quant_type", {"\"" + type_ + "\""});
    ReadShape(keys, codes);
    ReadScales(keys);
    keys.Ignore("dtype nested_dtype");
    keys.RefuseOthers();
    return std::make_unique<FourBitMatrix>(out_, in_, Formatted("bitsandbytes {}/block{}", type_, blocks_.size), where_,
                                           std::move(blocks_), std::move(parts_), tensors_.files());
  }

 private:
  const TensorView& Part(const std::string& part, DType type) {
    const TensorView& tensor = tensors_.Take(module_, part, {type});
    parts_.push_back(&tensor);
    return tensor;
  }
  std::vector<float> Values(const char* part, int64_t count) {
    const TensorView& tensor = Part(part, DType::kF32);
    tensors_.Require(tensor, {count}, "as the blocks of the matrix have it");
    return FiniteValues(tensor, tensors_.Where(tensor.name));
  }

  void ReadShape(SchemeKeys& keys, const TensorView& codes) {
    const int64_t size = std::ssize(codes.bytes);
    const std::array<int64_t, 2> shape = keys.Two("shape", 2 * size, "two positive integers");
    out_ = shape[0], in_ = shape[1];
    if (out_ > 2 * size / in_ || (out_ * in_ + 1) / 2 != size)
      Fail("{}: got {} bytes, expected half of [{}, {}]", where_, size, out_, in_);
  }

  void ReadScales(SchemeKeys& keys) {
    blocks_.size = keys.Integer("blocksize", 1, int64_t{1} << 20);
    const int64_t count = (out_ * in_ - 1) / blocks_.size + 1;
    blocks_.map = Values("weight.quant_map", 16);
    const TensorView& absmax = tensors_.Take(module_, "weight.absmax", {DType::kF32, DType::kU8});
    if (absmax.dtype == DType::kF32) {
      blocks_.scales = Values("weight.absmax", count);
      return;
    }
    parts_.push_back(&absmax);
    tensors_.Require(absmax, {count}, "as the blocks of the matrix have it");
    const int64_t size = keys.Integer("nested_blocksize", 1, int64_t{1} << 20);
    const Json* offset = keys.Find("nested_offset");
    const float added =
        offset != nullptr && offset->is_number() ? offset->get<float>() : std::numeric_limits<float>::quiet_NaN();
    if (!std::isfinite(added)) Fail("{}: nested_offset: expected a number", keys.where());
    const std::vector<float> map = Values("weight.nested_quant_map", 256);
    const std::vector<float> scales = Values("weight.nested_absmax", (count - 1) / size + 1);
    for (int64_t b = 0; b < count; ++b)
      blocks_.scales.push_back(map[static_cast<size_t>(absmax.bytes[b])] * scales[static_cast<size_t>(b / size)] +
                               added);
  }

  const std::string& module_;
  const std::string& type_;
  ModuleTensors& tensors_;
  std::string where_;
  int64_t out_ = 0, in_ = 0;
  Blocks blocks_;
  std::vector<const TensorView*> parts_;
};

}  // namespace

ForeignModel ReadBitsAndBytes(SchemeKeys& keys, ModuleTensors& tensors) {
  for (const char* key : {"load_in_8bit", "_load_in_8bit"}) keys.Only(key, {"false"});
  for (const char* key : {"load_in_4bit", "_load_in_4bit"}) keys.Only(key, {"true"});
  keys.Only("bnb_4bit_quant_type", {"\"nf4\"", "\"fp4\""});
  keys.Only("bnb_4bit_quant_storage", {"\"uint8\""});
  const std::string type = keys.Text("bnb_4bit_quant_type", "fp4");
  keys.Ignore(
      "bnb_4bit_compute_dtype bnb_4bit_use_double_quant llm_int8_enable_fp32_cpu_offload "
      "llm_int8_has_fp16_weight llm_int8_skip_modules llm_int8_threshold");
  keys.RefuseOthers();
  ForeignModel model;
  for (const std::string& module : tensors.ModulesWith(std::string(kState) + type))
    model.matrices.emplace(module + ".weight", FourBitReader(module, type, tensors).Read());
  tensors.CheckNothingLeft(
      "absmax quant_map nested_absmax nested_quant_map bitsandbytes__nf4 bitsandbytes__fp4 SCB weight_format");
  return model;
}

}  // namespace tare
