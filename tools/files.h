// SPDX-License-Identifier: Apache-2.0
// The files of a command, compared before anything runs: no output may be an input, or a file of an input folder, and
// no two outputs may be one file. Compared by what is on the disk, not by spelling: links, "./" and ".." do not hide it.
#pragma once

#include <string>
#include <vector>

#include "quant/file/atomic_file.h"

namespace tare {

// Names as the command line has them; "" and "-" (standard output) are passed over. Throws Error for the above, and
// where an output cannot be written: a missing folder, no permission, a folder or device of that name, or another
// process that writes it. What is returned keeps other processes from the outputs for as long as it lives.
[[nodiscard]] std::vector<AtomicFile> ClaimFiles(const std::vector<std::string>& inputs,
                                                 const std::vector<std::string>& outputs);

}  // namespace tare
