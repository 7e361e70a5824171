// SPDX-License-Identifier: Apache-2.0
// The limits of the machine, measured in the same run as the results compared with them: rates of the ukernel on
// operands that stay in cache, and of reading memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>

namespace tare {

// How far a bench is, after each case: done of all, "cases". May be empty.
using CasesDone = std::function<void(int64_t done, int64_t total, const char* unit)>;

struct Roofline {
  double u8s8_gops = 0;  // u8 x s8 -> s32, M 64, N 64, K 128
  double f32_gflops = 0;
  double bf16_gflops = 0;  // 0 where the CPU has no products of bf16
  double read_gbps = 0;    // of 256 MiB, far more than caches hold
};

// On this many threads at once, best of 15 rounds; some tenths of a second. SetThreads(threads) stays in effect.
Roofline MeasureRoofline(int threads);

// GB/s of reading this many bytes repeatedly on this many threads, best of 15 rounds; in large pages if the system has
// them, as key/value caches use.
double ReadRate(int threads, size_t bytes);

// The better of each: a machine that others use too is slower at times, never faster.
Roofline Better(const Roofline& a, const Roofline& b);

// {"u8s8_gops","f32_gflops","bf16_gflops","read_gbps"}
nlohmann::ordered_json ToJson(const Roofline& roofline);

}  // namespace tare
