// SPDX-License-Identifier: Apache-2.0
// Motif (MotifForCausalLM: Motif-2.6B, Motif-2-12.7B), with differential attention or its grouped form.
#pragma once

#include "experiments/model/family.h"

namespace tare {

extern const Family kMotif;

}  // namespace tare
