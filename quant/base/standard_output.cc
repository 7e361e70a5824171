// SPDX-License-Identifier: Apache-2.0
#include "quant/base/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "quant/base/error.h"

namespace tare {

void PutText(std::string_view text) {
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!whole || std::fflush(stdout) != 0)
    Fail("standard output: cannot be written: {}; try freeing space, or another place for it", std::strerror(errno));
}

}  // namespace tare
