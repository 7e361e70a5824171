// SPDX-License-Identifier: Apache-2.0
// Rows of oneDNN beside those of the kernels, with the same shapes, counters and checks: what else this machine offers,
// in the same run.
#pragma once

#include <vector>

#include "tests/kernels/bench/kernel_table.h"

namespace tare {

void AddRivalRows(std::vector<KernelRow>& table);

}  // namespace tare
