// SPDX-License-Identifier: Apache-2.0
#include "quant/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace tare {

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold; please report this\n", file, line, condition);
  std::abort();
}

}  // namespace tare
