// SPDX-License-Identifier: Apache-2.0
// For a process that goes on after work that RequestStop ended (error.h), as Python does.
#pragma once

namespace tare {

void ForgetStop() noexcept;

}  // namespace tare
