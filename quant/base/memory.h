// SPDX-License-Identifier: Apache-2.0
// Checks for free memory, for libraries that crash without it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tare {

// Throws Error unless 32 MiB more can be had now; they are given back at once. Asked before oneDNN makes a kernel:
// where an allocation fails meanwhile it writes through null or frees what it never made (3.6 and 3.7: within 4 MiB of
// the end, in dnnl_primitive_create and dnnl_brgemm_destroy; measured with RLIMIT_AS from 84 to 400 MB). And before a
// model and a tokenizer are read, so that a limit is named while it can be.
void RequireRoom();

// Asks for pages of 2 MiB where the memory is large enough to have any: tables of 4 KiB pages cost what is read once a
// tenth of its speed. Contents stay; where the system has no large pages nothing happens.
void AdviseLargePages(std::span<std::byte> memory);

// Bytes of memory that the machine has.
double MachineMemory();

// The limits on the process, as a shell shows them: " under ulimit -v 120000"; empty where there are none.
std::string MemoryLimits();

}  // namespace tare
