// SPDX-License-Identifier: Apache-2.0
// Checks for free memory, for libraries that crash without it.
#pragma once

#include <cstddef>
#include <memory_resource>
#include <span>
#include <string>

namespace tare {

// Throws Error unless 32 MiB more are available now; it returns them at once. Called before oneDNN makes a kernel: if
// an allocation fails there, oneDNN writes through null or frees what it never made (3.6 and 3.7: within 4 MiB of the
// end, in dnnl_primitive_create and dnnl_brgemm_destroy; measured with RLIMIT_AS from 84 to 400 MB). Also called before
// a model and a tokenizer are read, so that the message can still name the limit.
void RequireRoom();

// Requests 2 MiB pages if the memory is large enough to hold any: data that is read once comes from 4 KiB pages at two
// thirds of the rate (docs/develop/notebook.md). Contents stay; without large pages in the system, nothing happens.
void AdviseLargePages(std::span<std::byte> memory);

// Buffers one behind the other in such pages, as matrices below 2 MiB fill none alone. Memory comes in chunks of 32 MiB
// and goes back with a chunk's last buffer; 8 MiB or more are a chunk of their own.
std::pmr::memory_resource& LargePages();

// The machine's memory in bytes.
double MachineMemory();

// The limits on the process, as a shell shows them: " under ulimit -v 120000"; empty without limits.
std::string MemoryLimits();

}  // namespace tare
