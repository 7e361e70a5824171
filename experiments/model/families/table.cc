// SPDX-License-Identifier: Apache-2.0
// The families by name, for the shared steps (experiments/model/config/family.h). Only this file knows all of them.
#include "experiments/model/families/table.h"

#include "experiments/model/families/llama.h"
#include "quant/base/message.h"

namespace tare {
namespace {

std::vector<const Family*>& Table() {
  static std::vector<const Family*> table{
      &kLlama,       &kDiffLlama,   &kQwen2,          &kQwen3,      &kMistral,      &kMinistral,      &kOlmo2,
      &kOlmo3,       &kGemma3,      &kSmolLm3,        &kGranite,    &kPhi3,         &kDiffV1,         &kDiffV2,
      &kMotif,       &kMotif3,      &kPhi4Flash,      &kMamba2,     &kDiffMamba2,   &kGptOss,         &kMixtral,
      &kQwen3Moe,    &kTransformer, &kClipText,       &kClipVision, &kDiffClipText, &kDiffClipVision, &kVit,
      &kParallelVit, &kDiffVit,     &kDiffParallelVit};
  return table;
}

}  // namespace

std::span<const Family* const> Families() { return Table(); }

void AddFamily(const Family& family) { Table().push_back(&family); }

const Family& FamilyNamed(std::string_view name, const std::string& where) {
  if (name == "Motif") return kMotif;  // as its published checkpoints write it
  for (const Family* family : Families()) {
    if (family->name == name) return *family;
  }
  Fail("{}: got '{}', expected {}", where, name, Listed(Families(), ", ", &Family::name, " or "));
}

}  // namespace tare
