// SPDX-License-Identifier: Apache-2.0
// The parts of a module, settings by patterns, the convention of zero points, AWQ's layout, and the readers.
#include "quant/interchange/folders/gptq.h"

#include <algorithm>
#include <array>
#include <utility>

#include "quant/base/message.h"

namespace tare {
namespace {

constexpr std::array<int, 4> kBits{2, 3, 4, 8};

int64_t ReadGroupSize(SchemeKeys& keys, const char* key, int64_t otherwise) {
  const int64_t columns = keys.Integer(key, -1, int64_t{1} << 31, otherwise);  // no matrix has as many
  if (columns == 0) keys.Wrong(key, "-1 or a positive number");
  return columns;
}

std::string GptqScheme(const GptqSettings& s) {
  return s.group < 0 ? Formatted("{} int{}/channel", s.tool, s.bits)
                     : Formatted("{} int{}/group{}", s.tool, s.bits, s.group);
}

// A module's parts in either layout, but for how codes are packed: tensors `codes`, X.qzeros and X.scales.
struct MatrixSize {
  int64_t out, in;
};
GroupedParts PartsOfModule(const std::string& module, const GptqSettings& s, const TensorView& codes, MatrixSize size,
                           ModuleTensors& tensors) {
  const TensorView& zeros = tensors.TakeMatrix(module, "qzeros", {DType::kI32});
  const TensorView& scales = tensors.TakeMatrix(module, "scales", kFloatTypes);
  const std::string name = module + ".weight";
  GroupedParts parts{
      .name = name, .where = tensors.Where(name), .scheme = GptqScheme(s), .out = size.out, .in = size.in};
  parts.columns = s.group < 0 ? size.in : s.group;
  parts.groups = size.in / parts.columns + (size.in % parts.columns != 0 ? 1 : 0);
  tensors.Require(zeros, {parts.groups, size.out * s.bits / 32}, Because(parts));
  tensors.Require(scales, {parts.groups, size.out}, Because(parts));
  parts.values = parts.zero_values = IntegerValues(0);
  parts.scales = {.tensor = &scales, .row_step = 1, .group_step = size.out};
  parts.tensors = {&codes, &zeros, &scales};
  return parts;
}

GroupedParts GptqParts(const std::string& module, const GptqSettings& s, ModuleTensors& tensors) {
  const TensorView& codes = tensors.TakeMatrix(module, "qweight", {DType::kI32});
  const int64_t out = codes.shape[1], words = codes.shape[0];
  if (words % s.bits != 0 && 32 % s.bits != 0)
    Fail("{}: got {} rows, expected a multiple of {}: {}", tensors.Where(codes.name), words, s.bits, GptqScheme(s));
  if (out * s.bits % 32 != 0)
    Fail("{}: got {} columns, expected ones that fill words of 32 bits: {}", tensors.Where(codes.name), out,
         GptqScheme(s));
  GroupedParts parts = PartsOfModule(module, s, codes, {.out = out, .in = words * 32 / s.bits}, tensors);
  const TensorView& zeros = *parts.tensors[1];
  parts.codes = {.words = codes.bytes.data(), .bits = s.bits, .word_step = out, .stream_step = 1};
  parts.zeros =
      PackedCodes{.words = zeros.bytes.data(), .bits = s.bits, .stream_step = zeros.shape[1], .along_rows = false};
  if (tensors.Find(module, "g_idx") != nullptr) {
    const TensorView& g_idx = *parts.tensors.emplace_back(&tensors.Take(module, "g_idx", {DType::kI32}));
    parts.group_of = GroupsOfColumns(parts, g_idx, 0, tensors);
  } else if (s.ordered) {
    Fail("{}: missing, where quantization_config says desc_act: true; try downloading the checkpoint again",
         tensors.Where(module + ".g_idx"));
  }
  return parts;
}

// `dynamic`: patterns of modules, the first that matches counts; "-:" before one leaves its modules as they are.
SettingsOfModule ReadDynamic(SchemeKeys& keys, const GptqSettings& all) {
  std::vector<std::pair<NamePattern, std::optional<GptqSettings>>> rules;
  for (const auto& [key, value] : keys.Object("dynamic", "an object of patterns").items()) {
    const std::string place = Formatted("{}: dynamic: '{}'", keys.where(), key);
    const bool leaves = key.starts_with("-:"), marked = leaves || key.starts_with("+:");
    auto& [pattern, settings] =
        rules.emplace_back(NamePattern(std::string_view(key).substr(marked ? 2 : 0), place), std::nullopt);
    SchemeKeys own(value, place);
    if (leaves) continue;
    settings = ReadGptqSettings(own, all);
    own.Ignore("mse damp_percent damp_auto_increment act_group_aware");
    own.RefuseOthers();
  }
  return [all, rules](const std::string& module) {
    const auto rule = std::ranges::find_if(rules, [&](const auto& one) { return one.first.MatchesStart(module); });
    return rule == rules.end() ? std::optional(all) : rule->second;
  };
}

// Throws Error, with what it should be, for a zero point that is stored as another number.
void RequireZeros(const GroupedParts& parts, uint32_t zero, const std::string& expected) {
  for (int64_t row = 0; row < parts.out; ++row) {
    for (int64_t g = 0; g < parts.groups; ++g) {
      if (const uint32_t got = parts.zeros->At(row, g); got != zero)
        Fail("{}: zero point of row {}, group {} is stored as {}, {}", parts.where, row, g, got, expected);
    }
  }
}

// Which of the two conventions a checkpoint's symmetric matrices prove; without any, what the configuration says holds.
class ZeroPointProof {
 public:
  ZeroPointProof(std::string where, StoredZeros configured) : where_(std::move(where)), configured_(configured) {}

  // parts.zeros are as they are stored. Throws Error if they contradict sym: true, or each other.
  void Add(const GroupedParts& parts) {
    const uint32_t middle = 1u << (parts.codes.bits - 1), first = parts.zeros->At(0, 0);
    if (first != middle && first != middle - 1)
      Fail("{}: zero point 0 is stored as {}, expected {} or {} of all where quantization_config says sym: true",
           parts.where, first, middle - 1, middle);
    RequireZeros(parts, first,
                 Formatted("another as {}; expected one value where quantization_config says sym: true", first));
    (first == middle ? as_they_are_ : less_one_) = parts.name;
    if (!less_one_.empty() && !as_they_are_.empty())
      Fail("{}: zero points of '{}' are stored less one, those of '{}' as they are; expected one convention", where_,
           less_one_, as_they_are_);
  }

  // With a note, if it is not the configured one.
  StoredZeros Decide(std::vector<std::string>& notes) const {
    StoredZeros decided = configured_;
    if (!less_one_.empty()) decided = StoredZeros::kLessOne;
    if (!as_they_are_.empty()) decided = StoredZeros::kAsTheyAre;
    if (decided != configured_)
      notes.emplace_back(decided == StoredZeros::kLessOne
                             ? "zero points are stored less one, as their values show; config.json says otherwise"
                             : "zero points are stored as they are, as their values show; config.json says less one");
    return decided;
  }

 private:
  std::string where_;
  StoredZeros configured_;
  std::string less_one_, as_they_are_;  // a symmetric matrix that shows it
};

// Whether GPTQModel 1 to 6 wrote it. From words of 3-bit zero points these subtract other constants than 1 from each,
// and only they add them again (ModelCloud/GPTQModel 8e8ff117b).
bool HasOddThreeBits(SchemeKeys& keys) {
  const Json* const meta = keys.Find("meta");
  if (meta == nullptr || !meta->is_object() || !meta->contains("quantizer")) return false;
  return NamePattern("gptqmodel:[1-6]\\.", keys.where()).MatchesSomewhere(JsonText(meta->at("quantizer")));
}

constexpr std::array<uint8_t, 8> kPlaces{0, 4, 1, 5, 2, 6, 3, 7};  // the nibble of each row of eight

PackedCodes AwqCodes(const TensorView& tensor) {
  return {.words = tensor.bytes.data(),
          .bits = 4,
          .per_word = 8,
          .stream_step = tensor.shape[1],
          .place = kPlaces,
          .along_rows = false};
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

// The settings of a module with codes. Throws Error where the configuration leaves it as it is.
GptqSettings SettingsOf(const std::string& module, const SettingsOfModule& settings, const std::string& where,
                        const ModuleTensors& tensors) {
  if (const std::optional<GptqSettings> of_module = settings(module)) return *of_module;
  Fail("{}: got codes, expected a plain weight: {} leaves this module as it is", tensors.Where(module + ".qweight"),
       where);
}

}  // namespace

PackedCodes ZeroCodes(PackedCodes packed, StoredZeros stored) {
  if (stored == StoredZeros::kAsTheyAre) return packed;
  if (32 % packed.bits != 0) {  // 3 bits lie across words, and are counted one by one
    packed.code_add = 1;
    return packed;
  }
  for (int shift = 0; shift < 32; shift += packed.bits) packed.word_add |= 1u << shift;
  return packed;
}

GptqSettings ReadGptqSettings(SchemeKeys& keys, GptqSettings settings) {
  settings.bits = static_cast<int>(keys.Integer("bits", 2, 8, settings.bits));
  if (!std::ranges::contains(kBits, settings.bits)) keys.Wrong("bits", "2, 3, 4 or 8");
  settings.group = ReadGroupSize(keys, "group_size", settings.group);
  settings.symmetric = keys.Flag("sym", settings.symmetric);
  settings.ordered = keys.Flag("desc_act", settings.ordered);
  return settings;
}

void ReadGptqMatrices(const SettingsOfModule& settings, StoredZeros configured, const std::string& where,
                      ModuleTensors& tensors, ForeignModel& model) {
  std::vector<GroupedParts> all;
  ZeroPointProof proof(where, configured);
  for (const std::string& module : tensors.ModulesWith("qweight")) {
    const GptqSettings of_module = SettingsOf(module, settings, where, tensors);
    all.push_back(GptqParts(module, of_module, tensors));
    if (of_module.symmetric) proof.Add(all.back());
  }
  tensors.CheckNothingLeft("qweight qzeros scales g_idx");
  const StoredZeros stored = proof.Decide(model.notes);
  for (GroupedParts& parts : all) {
    parts.zeros = ZeroCodes(*parts.zeros, stored);
    AddMatrix(std::move(parts), tensors, model);
  }
}

ForeignModel ReadGptq(SchemeKeys& keys, ModuleTensors& tensors) {
  keys.Integer("bits", 2, 8);  // not left out
  const GptqSettings all = ReadGptqSettings(keys, {});
  const SettingsOfModule settings = ReadDynamic(keys, all);
  for (const char* key : {"checkpoint_format", "format"}) keys.Only(key, {"\"gptq\"", "\"gptq_v2\""});
  const bool is_v2 = keys.Text("checkpoint_format", keys.Text("format", "gptq")) == "gptq_v2";
  keys.Only("pack_dtype", {"\"int32\""});
  for (const char* key : {"adapter", "rotation", "lora", "modules_to_not_convert", "preprocessors", "hadamard"})
    keys.Only(key, {});
  keys.Only("is_marlin_format", {"false"});
  // What was quantized how, and how other programs run it.
  keys.Ignore(
      "meta damp_percent damp_auto_increment static_groups true_sequential mse model_name_or_path "
      "model_file_base_name act_group_aware hyb_act batch_size block_name_to_quantize cache_block_outputs "
      "dataset exllama_config max_input_length model_seqlen module_name_preceding_first_block "
      "modules_in_block_to_quantize pad_token_id tokenizer use_cuda_fp16 use_exllama disable_exllama backend "
      "lm_head quantizer parallel_packing offload_to_disk offload_to_disk_path device compute_device_filter foem "
      "gptaq gptaq_alpha v2 v2_alpha v2_memory_device failsafe failsafe_with_rtn auto_forward_data_parallel "
      "vram_strategy gc_mode wait_for_submodule_finalizers fallback weight_only process pack_impl");
  const bool odd = !is_v2 && HasOddThreeBits(keys);
  keys.RefuseOthers();
  const SettingsOfModule checked = [&](const std::string& module) {
    const std::optional<GptqSettings> of_module = settings(module);
    if (odd && of_module && of_module->bits == 3)
      Fail("{}: got zero points of 3 bits as GPTQModel before 7 stores them, expected ones of 7 or of gptq_v2",
           tensors.Where(module + ".qzeros"));
    return of_module;
  };
  ForeignModel model;
  ReadGptqMatrices(checked, is_v2 ? StoredZeros::kAsTheyAre : StoredZeros::kLessOne, keys.where(), tensors, model);
  return model;
}

void ReadAwqMatrices(const SettingsOfModule& settings, const std::string& where, ModuleTensors& tensors,
                     ForeignModel& model) {
  for (const std::string& module : tensors.ModulesWith("qweight")) {
    const GptqSettings of_module = SettingsOf(module, settings, where, tensors);
    if (of_module.bits != 4)
      Fail("{}: got {} bits in {}, expected 4", tensors.Where(module + ".qweight"), of_module.bits, where);
    GroupedParts parts = AwqParts(module, of_module, tensors);
    // Readers that know of no zero points use 8.
    if (of_module.symmetric) RequireZeros(parts, 8, "expected 8 where quantization_config says zero_point: false");
    AddMatrix(std::move(parts), tensors, model);
  }
  tensors.CheckNothingLeft("qweight qzeros scales g_idx");
}

ForeignModel ReadAwq(SchemeKeys& keys, ModuleTensors& tensors) {
  GptqSettings all{.tool = "AWQ"};
  for (const char* key : {"bits", "w_bit"}) keys.Only(key, {"4"});
  if (!keys.Has("bits") && !keys.Has("w_bit")) keys.Integer("bits", 4, 4);  // says that it is missing
  const char* group = keys.Has("q_group_size") ? "q_group_size" : "group_size";
  all.group = ReadGroupSize(keys, group, 128);
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
