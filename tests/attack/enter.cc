// SPDX-License-Identifier: Apache-2.0
#include "tests/attack/enter.h"

#include <fcntl.h>
#include <unistd.h>

namespace tare::attack {
namespace {

constexpr int kWrite = O_WRONLY | O_CREAT | O_TRUNC;

bool Limit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  return value == RLIM_INFINITY || setrlimit(resource, &limit) == 0;
}

}  // namespace

bool Enter(const char* folder, const char* out, const char* err, const Limits& limits) {
  return chdir(folder) == 0 && dup2(open("/dev/null", O_RDONLY), STDIN_FILENO) >= 0 &&
         dup2(open(out, kWrite, 0666), STDOUT_FILENO) >= 0 && dup2(open(err, kWrite, 0666), STDERR_FILENO) >= 0 &&
         close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) == 0 && Limit(RLIMIT_CORE, 0) &&
         Limit(RLIMIT_FSIZE, limits.file_bytes) && Limit(RLIMIT_AS, limits.address_bytes) &&
         Limit(RLIMIT_NOFILE, limits.open_files);
}

}  // namespace tare::attack
