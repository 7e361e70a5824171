// SPDX-License-Identifier: Apache-2.0
// AWQ's layout "gemm", 4 bits. For W [out, in], G groups of columns:
//
//   X.qweight  i32 [in, out / 8]   codes along `out`; nibbles 0 to 7 of a word are rows 0 2 4 6 1 3 5 7 of eight
//   X.qzeros   i32 [G, out / 8]    zero points, the same, as they are
//   X.scales   f16 [G, out]
//
//   W = scale * (code - zero point)
#include <array>

#include "quant/base/message.h"
#include "quant/interchange/folders/gptq.h"

namespace tare {
namespace {

constexpr std::array<uint8_t, 8> kPlaces{0, 4, 1, 5, 2, 6, 3, 7};  // the nibble of each row of eight

PackedCodes AwqCodes(const TensorView& tensor) {
  return {.words = tensor.bytes.data(),
          .bits = 4,
          .per_word = 8,
          .stream_step = tensor.shape[1],
          .place = kPlaces,
          .along_rows = false};
}

// Readers that know of no zero points use 8; the stored ones must be that.
void RequireMiddle(const GroupedParts& parts) {
  for (int64_t row = 0; row < parts.out; ++row) {
    for (int64_t g = 0; g < parts.groups; ++g) {
      if (const uint32_t zero = parts.zeros->At(row, g); zero != 8)
        Fail("{}: zero point of row {}, group {} is {}, expected 8 where quantization_config says zero_point: false",
             parts.where, row, g, zero);
    }
  }
}

GroupedParts AwqParts(const std::string& module, const GptqSettings& s, ModuleTensors& tensors) {
  const TensorView& codes = tensors.TakeMatrix(module, "qweight", {DType::kI32});
  const int64_t in = codes.shape[0];
  if (s.group > 0 && in % s.group != 0)
    Fail("{}: got {} rows, expected a multiple of group_size {}", tensors.Where(codes.name), in, s.group);
  GroupedParts parts = PartsOfModule(module, s, codes, {.out = codes.shape[1] * 8, .in = in}, tensors);
  parts.codes = AwqCodes(codes);
  parts.zeros = AwqCodes(*parts.tensors[1]);
  return parts;
}

}  // namespace

void ReadAwqMatrices(const SettingsOfModule& settings, const std::string& where, ModuleTensors& tensors,
                     ForeignModel& model) {
  for (const std::string& module : tensors.ModulesWith("qweight")) {
    const std::optional<GptqSettings> of_module = settings(module);
    const std::string place = tensors.Where(module + ".qweight");
    if (!of_module) Fail("{}: got codes, expected a plain weight: {} leaves this module as it is", place, where);
    if (of_module->bits != 4) Fail("{}: got {} bits in {}, expected 4", place, of_module->bits, where);
    GroupedParts parts = AwqParts(module, *of_module, tensors);
    if (of_module->symmetric) RequireMiddle(parts);
    AddMatrix(std::move(parts), tensors, model);
  }
  tensors.CheckNothingLeft("qweight qzeros scales g_idx");
}

ForeignModel ReadAwq(SchemeKeys& keys, ModuleTensors& tensors) {
  GptqSettings all{.tool = "AWQ"};
  keys.Only("bits", {"4"});
  keys.Only("w_bit", {"4"});
  if (!keys.Has("bits") && !keys.Has("w_bit")) keys.Integer("bits", 4, 4);  // says that it is missing
  const char* group = keys.Has("q_group_size") ? "q_group_size" : "group_size";
  all.group = keys.Integer(group, -1, int64_t{1} << 31, 128);
  if (all.group == 0) keys.Wrong(group, "-1 or a positive number");
  all.symmetric = !keys.Flag("zero_point", !keys.Flag("sym", false));
  for (const char* key : {"version", "format", "checkpoint_format"}) keys.Only(key, {"\"gemm\"", "\"GEMM\""});
  keys.Only("backend", {"\"autoawq\""});
  keys.Only("desc_act", {"false"});
  keys.Only("pack_dtype", {"\"int32\""});
  for (const char* key : {"dynamic", "adapter", "rotation"}) keys.Only(key, {});
  const LeftModules left(keys, {"modules_to_not_convert"});
  keys.Ignore("do_fuse fuse_max_seq_len modules_to_fuse exllama_config lm_head meta");
  keys.RefuseOthers();
  ForeignModel model;
  ReadAwqMatrices(
      [&](const std::string& module) -> std::optional<GptqSettings> {
        return left.Has(module) ? std::nullopt : std::optional(all);
      },
      keys.where(), tensors, model);
  return model;
}

}  // namespace tare
