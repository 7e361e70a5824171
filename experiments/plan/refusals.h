// SPDX-License-Identifier: Apache-2.0
// What a plan's rule may not combine, in one table. A row has traits that exclude each other in some use of a rule (its
// options, scale, format and site, and what its model has), and what the user is told:
//
//   plan rule 'k=int8/head+smooth': got +smooth with a scale per head, expected one per token, channel, group<N> or
//   block<N>.channel; try token+smooth
//
// Refusals by another rule, or a model's layers and weights, are in resolved_plan.cc and executed_plan.cc.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "experiments/plan/model_sites.h"
#include "quant/plan/plan.h"

namespace tare {

enum class Use {
  kAny,         // in a plan for the model
  kUnmeasured,  // without statistics
  kStored,      // as codes in a file
  kExecuted,    // on the integer kernels
  kInput,       // there, as the input of a linear layer
  kAttention,   // there, in attention
  kInParts,     // there, in attention to a prompt that comes in parts
};

struct Refusal {
  using Trait = bool (*)(const Rule& rule, const ModelSites& model);

  Use use;
  std::array<Trait, 4> traits;              // null after the last
  std::string_view got, expected, attempt;  // with marks such as {scale} for words of the rule and the model

  bool Refuses(const Rule& rule, const ModelSites& model) const;
};

// What to try where no kernel carries a rule out. Some commands, as generate, cannot simulate.
inline constexpr const char* kSimulate = "simulating it, as tare eval does without --executed";

std::span<const Refusal> Refusals();

// The first row that refuses this use of the rule; null if none does.
const Refusal* RefusalOf(const Rule& rule, Use use, const ModelSites& model = {});

// Throws Error as that row says.
void CheckUse(const Rule& rule, Use use, const ModelSites& model = {});

[[noreturn]] void RefuseRule(const Rule& rule, std::string_view got, std::string_view expected,
                             std::string_view attempt);

// "a scale per block64.channel", for messages.
std::string ScaleText(const Rule& rule);

}  // namespace tare
