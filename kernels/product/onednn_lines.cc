// SPDX-License-Identifier: Apache-2.0
#include "kernels/product/onednn_lines.h"

#include <dnnl.hpp>

#include "quant/base/error.h"

namespace tare {

void SilenceOneDnn() {
  if (dnnl::set_verbose(0) != dnnl::status::success)
    Fail("ONEDNN_VERBOSE: oneDNN cannot be silenced; try unsetting it");
}

}  // namespace tare
