// SPDX-License-Identifier: Apache-2.0
// C = A B, or C += A B, for one tile that fits in cache, on the calling thread: the building block of attention. A
// thin, cached handle on oneDNN's brgemm ukernel where that is correct; elsewhere Highway code that is exact on every
// instruction set.
//
//   kF32    A f32 [m][lda]    B f32 [k][ldb]          C f32 [m][ldc]
//   kU8S8   A u8 [m][lda]     B s8 [k/4][ldb][4]      C s32 [m][ldc]
//   kS8S8   A s8 [m][lda]     B s8 [k/4][ldb][4]      C s32 [m][ldc]    exact everywhere, fast with AMX
//   kBf16   A bf16 [m][lda]   B bf16 [k/2][ldb][2]    C f32 [m][ldc]    faster than f32 with AVX512_BF16 or AMX
//
// Row 4j+i of B is byte i of group j (2j+i for bf16), zeros after row k-1.
//
// The ukernel takes u8 x s8 only where oneDNN's effective instruction set has VNNI (it saturates elsewhere, silently)
// and s8 x s8 only with AMX (wrong elsewhere, silently). A's rows are read in whole groups of 4 (2 for bf16): pad A's
// row to that, with anything for u8/s8 codes (B's zeros cancel it), with finite values for bf16.
#pragma once

#include <cstdint>

namespace tare {

enum class ProductTypes { kF32, kU8S8, kS8S8, kBf16 };
enum class ProductStore { kOverwrite, kAdd };

struct ProductShape {
  ProductTypes types = ProductTypes::kF32;
  int m = 0;
  int n = 0;
  int k = 0;
  int64_t lda = 0;
  int64_t ldb = 0;
  int64_t ldc = 0;
  ProductStore store = ProductStore::kOverwrite;

  auto operator<=>(const ProductShape&) const = default;
};

class TileProduct {
 public:
  // Looks the shape up in a cache for the whole process, generates code the first time: not for inner loops. Throws
  // Error for shapes < 1.
  explicit TileProduct(const ProductShape& shape);

  void Run(const void* a, const void* b, void* c) const;
  bool OnUkernel() const;  // false: the Highway path

  struct Kernel;  // defined in the .cc

 private:
  const Kernel* kernel_;
};

// Whether the ukernel serves these types on this CPU under oneDNN's effective instruction set.
bool UkernelServes(ProductTypes types);

// AMX tiles stay configured on a thread after Run; at the end of a parallel piece of work this gives them back.
class ProductScope {
 public:
  ProductScope() = default;
  ~ProductScope();
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;
};

}  // namespace tare
