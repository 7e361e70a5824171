// SPDX-License-Identifier: Apache-2.0
// With ONEDNN_VERBOSE in the environment oneDNN writes a line about each of its kernels to standard output, among the
// figures of a command that writes them there.
#pragma once

namespace tare {

// From here on oneDNN writes none, whatever the environment says.
void SilenceOneDnn();

}  // namespace tare
