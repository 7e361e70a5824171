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

struct FourBitParts {
  std::string where, scheme;
  int64_t out = 0, in = 0, block = 64;
  std::vector<float> map, scales;          // of codes; of blocks: small beside the codes, so they are kept as f32
  std::vector<const TensorView*> tensors;  // the codes first
};

class FourBitMatrix : public ForeignMatrix {
 public:
  FourBitMatrix(FourBitParts parts, const CheckpointFiles& files)
      : ForeignMatrix(parts.out, parts.in), parts_(std::move(parts)), files_(files) {}

  void Row(int64_t row, float* y) const override {
    const std::byte* codes = parts_.tensors[0]->bytes.data();
    for (int64_t c = 0; c < in(); ++c) {
      const int64_t i = row * in() + c;
      const auto pair = static_cast<uint32_t>(codes[i / 2]);
      y[c] = parts_.map[i % 2 == 0 ? pair >> 4 : pair & 15] * parts_.scales[static_cast<size_t>(i / parts_.block)];
      if (!std::isfinite(y[c]))
        Fail("{}, row {}, column {}: got {}, expected finite weights", parts_.where, row, c, y[c]);
    }
  }
  std::string scheme() const override { return parts_.scheme; }
  int64_t bytes() const override { return BytesOf(parts_.tensors); }
  void Release() const override { files_.Release(*parts_.tensors[0]); }

 private:
  FourBitParts parts_;
  const CheckpointFiles& files_;
};

class FourBitReader {
 public:
  FourBitReader(const std::string& module, const std::string& type, ModuleTensors& tensors)
      : module_(module), type_(type), tensors_(tensors), parts_{.where = tensors.Where(module + ".weight")} {}

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
    parts_.scheme = Formatted("bitsandbytes {}/block{}", type_, parts_.block);
    return std::make_unique<FourBitMatrix>(std::move(parts_), tensors_.files());
  }

 private:
  const TensorView& Part(const std::string& part, DType type) {
    return *parts_.tensors.emplace_back(&tensors_.Take(module_, part, {type}));
  }
  // The f32 values of a small tensor, all finite.
  std::vector<float> Values(const char* part, int64_t count) {
    const TensorView& tensor = Part(part, DType::kF32);
    tensors_.Require(tensor, {count}, "as the blocks of the matrix have it");
    std::vector<float> values(tensor.elements());
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    const auto odd = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (odd != values.end())
      Fail("{}, index {}: got {}, expected finite numbers", tensors_.Where(tensor.name), odd - values.begin(), *odd);
    return values;
  }

  void ReadShape(SchemeKeys& keys, const TensorView& codes) {
    const int64_t size = std::ssize(codes.bytes);
    const auto [out, in] = keys.Two("shape", 2 * size, "two positive integers");
    if (out > 2 * size / in || (out * in + 1) / 2 != size)
      Fail("{}: got {} bytes, expected half of [{}, {}]", parts_.where, size, out, in);
    parts_.out = out, parts_.in = in;
  }

  void ReadScales(SchemeKeys& keys) {
    parts_.block = keys.Integer("blocksize", 1, int64_t{1} << 20);
    const int64_t count = (parts_.out * parts_.in - 1) / parts_.block + 1;
    parts_.map = Values("weight.quant_map", 16);
    const TensorView& absmax = tensors_.Take(module_, "weight.absmax", {DType::kF32, DType::kU8});
    if (absmax.dtype == DType::kF32) {
      parts_.scales = Values("weight.absmax", count);
      return;
    }
    parts_.tensors.push_back(&absmax);
    tensors_.Require(absmax, {count}, "as the blocks of the matrix have it");
    const int64_t size = keys.Integer("nested_blocksize", 1, int64_t{1} << 20);
    const Json* offset = keys.Find("nested_offset");
    const float added =
        offset != nullptr && offset->is_number() ? offset->get<float>() : std::numeric_limits<float>::quiet_NaN();
    if (!std::isfinite(added)) Fail("{}: nested_offset: expected a number", keys.where());
    const std::vector<float> map = Values("weight.nested_quant_map", 256);
    const std::vector<float> scales = Values("weight.nested_absmax", (count - 1) / size + 1);
    for (int64_t b = 0; b < count; ++b)
      parts_.scales.push_back(map[static_cast<size_t>(absmax.bytes[b])] * scales[static_cast<size_t>(b / size)] +
                              added);
  }

  const std::string& module_;
  const std::string& type_;
  ModuleTensors& tensors_;
  FourBitParts parts_;
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
