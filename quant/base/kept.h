// SPDX-License-Identifier: Apache-2.0
// What an interrupted run leaves for the same command to continue from: said when it stops (ThrowIfStopped of message.h),
// and when the next run takes it up.
#pragma once

#include <string>

namespace tare {

// How a refusal to take up what another job left ends.
inline constexpr const char* kStartOver = "try --fresh to start over, or another --out";

// "S.h5.part keeps 3 of 9 batches"; empty: nothing. KeptText: as the end of a sentence about an interruption.
void NoteKept(const std::string& what);
std::string KeptText();

// Shows "S.h5.part: continues from 3 of 9 batches", once, by the last OnContinued; nothing before the first.
void SayContinued(const std::string& where, const std::string& from);
void OnContinued(void (*show)(const std::string& text));

// For a process that goes on after work that RequestStop ended (message.h), as Python does.
void ForgetStop() noexcept;

}  // namespace tare
