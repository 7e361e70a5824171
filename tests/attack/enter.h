// SPDX-License-Identifier: Apache-2.0
// What a child process does before it becomes the attacked program.
#pragma once

#include <sys/resource.h>

namespace tare::attack {

struct Limits {
  rlim_t file_bytes = RLIM_INFINITY, address_bytes = RLIM_INFINITY, open_files = 256;
  friend bool operator==(const Limits&, const Limits&) = default;
};

// Goes to the folder, reads nothing, prints to the files, and takes the limits. False where one of these fails.
bool Enter(const char* folder, const char* out, const char* err, const Limits& limits);

}  // namespace tare::attack
