// SPDX-License-Identifier: Apache-2.0
// Parts shared by the sources of the Python module: passing arrays in and out, and taking turns to compute.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/file/dtype.h"

namespace tare {

// An array of any library that speaks DLPack or Python's buffer protocol, in CPU memory; nothing is copied.
using AnyArray = nanobind::ndarray<nanobind::ro>;

// Throws Error, beginning with `where`, for anything but an array in CPU memory.
AnyArray ArrayOf(nanobind::handle object, const std::string& where);
// The same in f32 with this many dimensions, the last one dense.
AnyArray FloatsOf(nanobind::handle object, const std::string& where, size_t dimensions);

std::string TypeName(nanobind::dlpack::dtype type);        // "float32", "bfloat16"
std::vector<int64_t> ShapeOf(const AnyArray& array);       // its dimensions
bool IsContiguous(const AnyArray& array);                  // row-major, without gaps
DType FileType(const AnyArray& array, const char* where);  // throws Error for types that no file has

// A new numpy array of f32, not initialised, and where its values are.
struct NewArray {
  explicit NewArray(const std::vector<int64_t>& shape);
  float* values;
  nanobind::object object;
};

// One call computes at a time, on the number of threads that it asks for (0: all): threads are the process's, and so
// are kernels' workspace and HDF5. Construct it without the GIL; a holder never asks for the GIL.
class Turn {
 public:
  explicit Turn(int threads);
  // Of this turn, aligned to 64, of any content.
  std::span<std::byte> Workspace(size_t bytes);

 private:
  std::lock_guard<std::mutex> lock_;
};

// Each adds its part of the module.
void AddAttention(nanobind::module_& module);
void AddQuantize(nanobind::module_& module);
void AddFiles(nanobind::module_& module);
void AddStatistics(nanobind::module_& module);

}  // namespace tare
