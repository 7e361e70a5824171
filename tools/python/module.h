// SPDX-License-Identifier: Apache-2.0
// Parts shared by the sources of the Python module: passing arrays in and out, and taking turns to compute.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "quant/base/aligned.h"
#include "quant/file/dtype.h"
#include "quant/format/quantized_matrix.h"

namespace tare {

// An array of any library that speaks DLPack or Python's buffer protocol, in CPU memory; not copied.
using AnyArray = nanobind::ndarray<nanobind::ro>;

// Throws Error, starting with `where`, for anything but an array in CPU memory.
AnyArray ArrayOf(nanobind::handle object, const std::string& where);
enum class FloatTypes { kF32, kF32OrHalf };  // kF32OrHalf: f16 and bf16, too
// As ArrayOf, for floats, with this many dimensions, the last one dense.
AnyArray FloatsOf(nanobind::handle object, const std::string& where, size_t dimensions,
                  FloatTypes types = FloatTypes::kF32);

std::string TypeName(nanobind::dlpack::dtype type);        // "float32", "bfloat16"
std::vector<int64_t> ShapeOf(const AnyArray& array);       // its dimensions
bool IsContiguous(const AnyArray& array);                  // row-major, without gaps
DType FileType(const AnyArray& array, const char* where);  // throws Error for types that files cannot store

// A new, uninitialised numpy array of f32, and the address of its values.
struct NewArray {
  explicit NewArray(const std::vector<int64_t>& shape);
  float* values;
  nanobind::object object;
};

// Only one call at a time computes or reads files, on the threads it requests (0: all): threads, workspace and HDF5
// belong to the process. InTurn makes it. On Python's main thread Ctrl-C ends the work between two units, and the call
// raises KeyboardInterrupt: Python's own handler would run only after the call.
class Turn {
 public:
  ~Turn();
  std::span<std::byte> Workspace(size_t bytes);  // memory of this turn, aligned to 64 bytes, not initialised

 private:
  template <typename Work>
  friend auto InTurn(int threads, Work work);
  explicit Turn(int threads);

  std::lock_guard<std::mutex> lock_;
  bool listens_;
};

// work(turn) without the GIL must not touch or return Python's objects: making one may collect garbage, and so run the
// user's code, which may ask for a turn. Throws Error in a child forked after the first turn (lock owners are gone).
template <typename Work>
auto InTurn(int threads, Work work) {
  const nanobind::gil_scoped_release released;
  Turn turn(threads);
  return work(turn);
}

// Whether this is such a child, where nothing may wait for a turn.
bool ForkedAfterTurn();

// Each adds its part of the module.
void AddAttention(nanobind::module_& module);
void AddQuantize(nanobind::module_& module);
void AddFiles(nanobind::module_& module);

// A matrix of codes and scales in Python: made by tare.quantize, or a weight of an open checkpoint.
struct Quantized {
  QuantizedMatrix matrix;
  std::vector<int64_t> shape;  // of the values; the last dimension is a row
  std::shared_ptr<const void> owner;
};

}  // namespace tare
