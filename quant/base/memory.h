// SPDX-License-Identifier: Apache-2.0
// Checks for free memory, for libraries that crash without it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tare {

// Throws Error unless 32 MiB more are available now; it returns them at once. Called before oneDNN makes a kernel: if
// an allocation fails there, oneDNN writes through null or frees what it never made (3.6 and 3.7: within 4 MiB of the
// end, in dnnl_primitive_create and dnnl_brgemm_destroy; measured with RLIMIT_AS from 84 to 400 MB). Also called before
// a model and a tokenizer are read, so that the message can still name the limit.
void RequireRoom();

// Requests 2 MiB pages if the memory is large enough to hold any: 4 KiB pages slow down data that is read once by a
// tenth. Contents stay; without large pages in the system, nothing happens.
void AdviseLargePages(std::span<std::byte> memory);

// Gives the system what the allocator keeps of freed memory, also between what is in use. glibc takes buffers of up to
// 32 MB from its heap once one of them was freed; where a model's codes were packed among such buffers, a third of the
// memory held nothing (1.2 G parameters: 1.62 instead of 1.10 GB).
void ReturnFreedMemory();

// The machine's memory in bytes.
double MachineMemory();

// The limits on the process, as a shell shows them: " under ulimit -v 120000"; empty without limits.
std::string MemoryLimits();

}  // namespace tare
