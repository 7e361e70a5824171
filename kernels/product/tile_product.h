// SPDX-License-Identifier: Apache-2.0
// C = A B, or C += A B, for one tile that fits in cache, on the calling thread: the building block of attention. Uses a
// thin, cached handle on oneDNN's brgemm ukernel where that is correct (for bytes with AMX, i8mm or sdot: AmxProduct
// and ArmProduct), and elsewhere Highway code that is exact on every instruction set.
//
//   kF32    A f32 [m][lda]    B f32 [k][ldb]          C f32 [m][ldc]
//   kU8S8   A u8 [m][lda]     B s8 [k/4][ldb][4]      C s32 [m][ldc]
//   kS8S8   A s8 [m][lda]     B s8 [k/4][ldb][4]      C s32 [m][ldc]    exact everywhere, fast with AMX
//   kBf16   A bf16 [m][lda]   B bf16 [k/2][ldb][2]    C f32 [m][ldc]    faster than f32 with AMX or on AMD
//                                                                      (Intel without AMX: half f32's rate)
//
// Row 4j+i of B is byte i of group j (2j+i for bf16), zeros after row k-1.
//
// The ukernel is used for u8 x s8 only if oneDNN's effective instruction set has VNNI (elsewhere it saturates,
// silently) and for s8 x s8 only with AMX (elsewhere it is wrong, silently). A's rows are read in whole groups of 4 (2
// for bf16): pad them, with any bytes for u8/s8 codes (B's zeros cancel them), with finite values for bf16.
#pragma once

#include <compare>
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
  // Looks the shape up process-wide and generates code once: too slow for inner loops. Throws Error for shapes < 1.
  explicit TileProduct(const ProductShape& shape);

  void Run(const void* a, const void* b, void* c) const;

  struct Kernel;  // defined in the .cc

 private:
  const Kernel* kernel_;
};

// Whether the ukernel is used for these types on this CPU, under oneDNN's effective instruction set.
bool UkernelServes(ProductTypes types);

// The product without oneDNN, same layouts: Highway, exact in integers on every target. For a missing or wrong ukernel,
// and to cross-check it. Leaves C's columns beyond n alone; reads no B columns up to the next multiple of a vector.
void ExactProduct(const ProductShape& shape, const void* a, const void* b, void* c);

// The product of bytes in AMX instructions, for whole tiles: m a multiple of 16, n of 32, k of 64. oneDNN's ukernel has
// a configuration of tiles for every depth, paid for at each change of product, and allocates in each call; here one
// serves all shapes. The calling thread's tiles must be loaded, and granted by the operating system.
bool AmxTakes(const ProductShape& shape);
void AmxProduct(const ProductShape& shape, const void* a, const void* b, void* c);
void LoadAmxTiles();
void ReleaseAmxTiles();

// Likewise on ARM, where the processor has i8mm, or else sdot: n a multiple of 8.
enum class ArmUnit { kI8mm, kSdot };
bool Has(ArmUnit unit);
bool ArmTakes(ArmUnit unit, const ProductShape& shape);
void ArmProduct(ArmUnit unit, const ProductShape& shape, const void* a, const void* b, void* c);

// AMX tiles stay configured on a thread after Run; a ProductScope around parallel work releases them at its end.
class ProductScope {
 public:
  ProductScope() = default;
  ~ProductScope();
  ProductScope(const ProductScope&) = delete;
  ProductScope& operator=(const ProductScope&) = delete;
};

}  // namespace tare
