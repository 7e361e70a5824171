// SPDX-License-Identifier: Apache-2.0
// CompressedJob: the check of the model, Write, fused tensors, modules, static scales, config.json and README.md.
#include "experiments/export/compressed_tensors/export.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "experiments/export/hugging_face.h"
#include "experiments/model/config/family.h"
#include "experiments/model/linear/weights.h"
#include "experiments/plan/model_sites.h"
#include "experiments/quantize/round_layers.h"
#include "quant/base/message.h"
#include "quant/checkpoint/checkpoint.h"
#include "quant/file/atomic_file.h"

namespace tare {
namespace {

constexpr const char* kNote = "README.md";

// Modules of one scheme.
struct SchemeUse {
  CompressedScheme scheme;
  std::vector<std::string> modules;
};

class CompressedJob {
 public:
  CompressedJob(const std::filesystem::path& quantized, std::string_view version)
      : path_(quantized),
        version_(version),
        file_(quantized),
        config_(LoadConfig(quantized)),
        plan_(Plan::Parse(file_.provenance().plan)) {
    CheckCompressed(plan_, config_);
    for (const auto& [name, matrix] : file_.matrices())
      RefuseBranch(matrix, Formatted("{}: '{}'", path_.string(), name), "compressed-tensors");
    if (!StackedTensors(config_).empty() || (config_.experts > 0 && !FusedTensors(config_).empty()))
      Fail(
          "{}: to compressed-tensors: got experts that are one tensor, expected a matrix for each; try convert --to "
          "gguf",
          path_.string());
  }

  CompressedSummary Write(const std::filesystem::path& folder) {
    const std::map<std::string, SiteKey> sites = WeightSites(config_);
    std::set<std::string> fused_parts;
    for (const FusedTensor& fused : FusedTensors(config_)) {
      for (const Checkpoint::Rows& part : fused.parts) fused_parts.insert(part.name);
      AddFused(fused, sites);
    }
    for (const auto& [name, tensor] : file_.tensors()) {
      if (!fused_parts.contains(name)) tensors_.push_back(tensor);
    }
    for (const auto& [name, key] : sites) {
      if (fused_parts.contains(name)) continue;
      const auto found = file_.matrices().find(name);
      if (found == file_.matrices().end()) {
        ignored_.push_back(ModuleName(name));
      } else {
        AddModule(ModuleName(name), key, found->second);
      }
      ThrowIfStopped();
    }
    for (const TensorView& tensor : tensors_) summary_.bytes += std::ssize(tensor.bytes);
    WriteSafetensors(folder / "model.safetensors", std::move(tensors_), TensorMetadata(file_.provenance()));
    CopyTokenizer(path_, folder);
    WriteFileAtomically(folder / kNote, Note());
    WriteFileAtomically(folder / "config.json", Config());
    return summary_;
  }

 private:
  static std::string ModuleName(const std::string& weight) { return weight.substr(0, weight.rfind('.')); }

  // One module there, of one scheme, or floating point.
  void AddFused(const FusedTensor& fused, const std::map<std::string, SiteKey>& sites) {
    std::vector<const QuantizedMatrix*> codes;
    std::vector<TensorView> values;
    std::vector<CompressedScheme> schemes;
    for (const Checkpoint::Rows& part : fused.parts) {
      const auto matrix = file_.matrices().find(part.name);
      const auto tensor = file_.tensors().find(part.name);
      if (tensor != file_.tensors().end()) values.push_back(tensor->second);
      if (matrix == file_.matrices().end()) continue;
      codes.push_back(&matrix->second);
      schemes.push_back(SchemeOfModule(sites.at(part.name)).first);
    }
    const bool alike = std::ranges::all_of(schemes, [&](const CompressedScheme& s) { return s == schemes[0]; });
    const bool has_scale_of_tensor = !schemes.empty() && schemes[0].weights["strategy"] == "tensor";
    if (values.empty() && codes.empty()) return;  // no biases
    if (values.size() == fused.parts.size()) {
      if (sites.contains(fused.parts.front().name)) ignored_.push_back(ModuleName(fused.name));
      tensors_.push_back(JoinedTensor(fused, values, joined_.emplace_back()));
      return;
    }
    if (fused.rows_of_columns > 0)
      Fail(
          "{}: to compressed-tensors: got codes of columns of '{}', expected a matrix for each part; try "
          "--format safetensors",
          path_.string(), fused.name);
    const std::optional<QuantizedMatrixBuffer> joined =
        alike && codes.size() == fused.parts.size() && !has_scale_of_tensor ? JoinedMatrix(codes) : std::nullopt;
    if (!joined)
      Fail(
          "{}: to compressed-tensors: got codes of parts of '{}' by several rules, or with scales of each part as a "
          "whole, expected one rule with scales per channel or group, as they are one matrix there; try int4/group32",
          path_.string(), fused.name);
    AddModule(ModuleName(fused.name), sites.at(fused.parts.front().name), joined->view());
  }

  // What a matrix's rules ask for, and the rule of its inputs, or null.
  std::pair<CompressedScheme, const Rule*> SchemeOfModule(const SiteKey& key) const {
    const Rule* inputs = plan_.Match({InputOf(key.site), key.layer});
    if (inputs != nullptr && inputs->format == Format::kF32) inputs = nullptr;
    return {SchemeOf(*plan_.Match(key), inputs), inputs};
  }

  void AddModule(const std::string& module, const SiteKey& key, const QuantizedMatrix& matrix) {
    const auto [scheme, inputs] = SchemeOfModule(key);
    NewModule& made = modules_.emplace_back(ModuleOf(module, matrix, scheme, path_.string()));
    if (scheme.largest_input > 0) {
      const float scale = Clip(*inputs, {InputOf(key.site), key.layer}) / scheme.largest_input;
      std::memcpy(made.Add("input_scale", DType::kF32, {1}), &scale, sizeof scale);
    }
    std::ranges::copy(made.tensors, std::back_inserter(tensors_));
    ++summary_.formats[std::string(scheme.format)];
    auto use = std::ranges::find(uses_, scheme, &SchemeUse::scheme);
    if (use == uses_.end()) use = uses_.insert(uses_.end(), {scheme, {}});
    use->modules.push_back(module);
  }

  // The magnitude that becomes the largest code.
  float Clip(const Rule& rule, const SiteKey& key) const {
    const auto found = file_.clips().find(KeptClips({{key, {}}}).begin()->first);
    if (found == file_.clips().end() || found->second.size() != 1 || !(found->second[0] > 0))
      Fail("{}: plan rule '{}': got no positive static scale of {}, expected one; try tare quantize --stats",
           path_.string(), rule.text, TextOf(key));
    return found->second[0];
  }

  // Every module by its name where there are several schemes, else the class of linear layers.
  Json Quantization() const {
    Json groups = Json::object();
    for (const SchemeUse& use : uses_) {
      const Json targets = uses_.size() == 1 ? Json::array({"Linear"}) : Json(use.modules);
      groups[Formatted("group_{}", groups.size())] = {{"targets", targets},
                                                      {"weights", use.scheme.weights},
                                                      {"input_activations", use.scheme.inputs},
                                                      {"output_activations", nullptr},
                                                      {"format", use.scheme.format}};
    }
    const std::string_view format = summary_.formats.size() == 1 ? uses_[0].scheme.format : "mixed-precision";
    return {{"quant_method", "compressed-tensors"},
            {"format", format},
            {"quantization_status", "compressed"},
            {"config_groups", groups},
            {"ignore", ignored_},
            {"kv_cache_scheme", nullptr},
            {"global_compression_ratio", nullptr}};
  }

  std::string Config() const {
    Json config = ParseOrderedJson(*file_.File("config.json"), path_.string() + ": config.json");
    config["quantization_config"] = Quantization();
    return JsonText(config, 2) + "\n";
  }

  std::string Note() const {
    const Provenance& p = file_.provenance();
    std::string text =
        Formatted("# {}, quantized\n\nWritten by Tare {} (schemes of compressed-tensors).\n\n", p.source, version_);
    const std::pair<const char*, std::string> lines[]{{"source", p.source},
                                                      {"sha256 of its weights", p.source_sha256},
                                                      {"plan", p.plan},
                                                      {"method", p.method},
                                                      {"calibration", p.calibration},
                                                      {"matrices", FormatsText(summary_)}};
    for (const auto& [what, value] : lines) {
      if (!value.empty()) text += Formatted("- {}: `{}`\n", what, value);
    }
    return text +
           "\nScales are f32: the weights have the values that Tare measured. A program that casts scales to 16 "
           "bits rounds them.\n";
  }

  std::filesystem::path path_;
  std::string version_;
  QuantizedCheckpoint file_;
  ModelConfig config_;
  Plan plan_;
  std::deque<NewModule> modules_;
  std::vector<TensorView> tensors_;
  std::deque<AlignedBuffer<std::byte>> joined_;  // tensors
  std::vector<std::string> ignored_;             // modules that stay as they are
  std::vector<SchemeUse> uses_;
  CompressedSummary summary_;
};

}  // namespace

std::vector<std::string> CompressedFiles() {
  std::vector<std::string> names = ExportedFiles();
  names.emplace_back(kNote);
  return names;
}

CompressedSummary ExportCompressed(const std::filesystem::path& quantized, const std::filesystem::path& folder,
                                   std::string_view version) {
  CompressedJob job(quantized, version);
  std::filesystem::create_directory(folder);
  return job.Write(folder);
}

std::string FormatsText(const CompressedSummary& summary) {
  std::string text;
  for (const auto& [format, count] : summary.formats)
    text += Formatted("{}{}{} in {}", text.empty() ? "" : ", ", count, text.empty() ? " matrices" : "", format);
  return text;
}

}  // namespace tare
