// SPDX-License-Identifier: Apache-2.0
#include "quant/base/error.h"

#include <cstdio>
#include <cstdlib>

#include "quant/base/formatted.h"

namespace tare {

void FailFormatted(std::string_view format, std::format_args args) { throw Error(FormatArguments(format, args)); }

void FailUsageFormatted(std::string_view format, std::format_args args) {
  throw UsageError(FormatArguments(format, args));
}

void CheckFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: internal error: %s does not hold; please report this\n", file, line, condition);
  std::abort();
}

}  // namespace tare
