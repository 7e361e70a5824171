// SPDX-License-Identifier: Apache-2.0
#include "kernels/product/library_settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include <hwy/highway.h>
#include <dnnl.hpp>

#include "quant/base/message.h"

namespace tare {

void LimitInstructions(std::string_view name) {
#if HWY_ARCH_X86
  struct Level {
    std::string_view name;
    int64_t highway;
    dnnl::cpu_isa onednn;
  };
  constexpr std::array levels{Level{"sse4", HWY_SSE4, dnnl::cpu_isa::sse41},
                              Level{"avx2", HWY_AVX2, dnnl::cpu_isa::avx2},
                              Level{"avx512", HWY_AVX3, dnnl::cpu_isa::avx512_core}};
  const auto level = std::ranges::find(levels, name, &Level::name);
  if (level == levels.end()) Fail("TARE_MAX_ISA: got '{}', expected sse4, avx2 or avx512", name);
  hwy::DisableTargets(level->highway - 1);  // a better target is a lower bit
  if (dnnl::set_max_cpu_isa(level->onednn) != dnnl::status::success)
    Fail("TARE_MAX_ISA: {}: oneDNN no longer accepts a limit", name);
#else
  Fail("TARE_MAX_ISA: got '{}', expected none: this processor is not x86", name);
#endif
}

void MeetOneDnn() {
#if HWY_ARCH_ARM
  if (access("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", R_OK) == 0) return;
  const int error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (error >= 0 && nowhere >= 0) {
    dup2(nowhere, STDERR_FILENO);
    dnnl::get_effective_cpu_isa();
    dup2(error, STDERR_FILENO);
  }
  if (error >= 0) close(error);
  if (nowhere >= 0) close(nowhere);
#endif
}

void SilenceOneDnn() {
  if (dnnl::set_verbose(0) != dnnl::status::success)
    Fail("ONEDNN_VERBOSE: oneDNN cannot be silenced; try unsetting it");
}

}  // namespace tare
