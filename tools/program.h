// SPDX-License-Identifier: Apache-2.0
// The program as a function: tools/tare.cc calls it once, tests of the commands any number of times in one process.
#pragma once

namespace tare {

// Runs a command, argv[0] being the program. prepare is called first, and its errors are those of the command. Returns
// the exit code: 0 done, 1 failed (bad input, full disk, or interrupted: main then ends by the signal), 2 usage error.
int RunProgram(int argc, char** argv, void (*prepare)());

}  // namespace tare
