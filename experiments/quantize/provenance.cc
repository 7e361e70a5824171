// SPDX-License-Identifier: Apache-2.0
#include "experiments/quantize/provenance.h"

#include "experiments/model/model.h"
#include "quant/base/error.h"

namespace tare {

void RefuseCodes(const Checkpoint& files, const std::filesystem::path& model) {
  if (files.quantized() == nullptr || files.quantized()->matrices().empty()) return;
  Fail("{}: is already quantized ({}); expected a checkpoint folder, or a file without codes", model.string(),
       files.quantized()->provenance().plan);
}

Provenance ProvenanceOf(const Checkpoint& files, const std::filesystem::path& model) {
  if (files.quantized() != nullptr) return files.quantized()->provenance();
  return {.source = ModelName(model), .source_sha256 = files.ContentHash()};
}

void AddStep(Provenance& p, const std::string& method, const std::string& calibration) {
  if (!method.empty()) p.method += (p.method.empty() ? "" : "+") + method;
  if (!calibration.empty() && calibration != p.calibration)
    p.calibration += (p.calibration.empty() ? "" : "; ") + calibration;
}

void RequireSameJob(const std::filesystem::path& path, const QuantizedCheckpoint& file, const Provenance& job,
                    const std::string& config) {
  const Provenance& found = file.provenance();
  const auto require = [&](const char* what, const std::string& got, const std::string& expected) {
    if (got == expected) return;
    Fail("{}: belongs to another job: its {} is '{}', this job's is '{}'; try without --resume", path.string(), what,
         got, expected);
  };
  require("plan", found.plan, job.plan);
  require("method", found.method, job.method);
  require("model", found.source, job.source);
  require("model's sha256", found.source_sha256, job.source_sha256);
  require("calibration", found.calibration, job.calibration);
  require("config.json", std::string(file.File("config.json").value_or("")), config);
}

}  // namespace tare
