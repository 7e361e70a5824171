// SPDX-License-Identifier: Apache-2.0
// Part of every program that clang sanitizes: what LLVM's OpenMP has allocated for its threads when a program ends is
// no leak of Tare's.
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp.so\n"; }
