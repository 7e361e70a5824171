// SPDX-License-Identifier: Apache-2.0
// The only user of oneDNN's ukernel API (3.7 to 3.12; with DNNL_EXPERIMENTAL_UKERNEL; unknown on other than x86).
#include "kernels/product/tile_product.h"

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "oneapi/dnnl/dnnl_ukernel.hpp"
#include "quant/base/aligned.h"
#include "quant/base/integers.h"
#include "quant/base/memory.h"
#include "quant/base/message.h"

namespace tare {

#if defined(DNNL_EXPERIMENTAL_UKERNEL) && defined(__x86_64__)

namespace {

using dnnl::ukernel::brgemm;
using Type = dnnl::memory::data_type;

bool HasAmx(dnnl::cpu_isa isa) {
  return isa == dnnl::cpu_isa::avx512_core_amx || isa == dnnl::cpu_isa::avx512_core_amx_fp16 ||
         isa == dnnl::cpu_isa::avx10_1_512_amx || isa == dnnl::cpu_isa::avx10_1_512_amx_fp16;
}

bool LacksVnni(dnnl::cpu_isa isa) {
  return isa == dnnl::cpu_isa::sse41 || isa == dnnl::cpu_isa::avx || isa == dnnl::cpu_isa::avx2 ||
         isa == dnnl::cpu_isa::avx512_core;
}

// The types of A, B and C, by ProductTypes.
constexpr std::array<std::array<Type, 3>, 4> kTypes = {{{Type::f32, Type::f32, Type::f32},
                                                        {Type::u8, Type::s8, Type::s32},
                                                        {Type::s8, Type::s8, Type::s32},
                                                        {Type::bf16, Type::bf16, Type::f32}}};

// finalize() throws in oneDNN 3.7 and returns false in 3.12: `auto` lets one text serve both.
void Finalize(auto& kernel) {
  if constexpr (std::is_void_v<decltype(kernel.finalize())>) {
    kernel.finalize();
  } else if (!kernel.finalize()) {
    Fail("oneDNN ukernel: finalize failed");
  }
}

// Rows of B in whole groups: with AMX, oneDNN 3.7 refuses k that ends inside a group. B's zeros cancel A's padding.
int WholeGroups(const ProductShape& s) {
  if (s.types == ProductTypes::kF32) return s.k;
  const int group = s.types == ProductTypes::kBf16 ? 2 : 4;
  return static_cast<int>(RoundUp(s.k, group));
}

brgemm Generate(const ProductShape& s) {
  const auto& [a, b, c] = kTypes[static_cast<size_t>(s.types)];
  brgemm kernel(s.m, s.n, WholeGroups(s), /*batch_size=*/1, s.lda, s.ldb, s.ldc, a, b, c);
  kernel.set_add_C(s.store == ProductStore::kAdd);
  Finalize(kernel);
  kernel.generate();
  return kernel;
}

// What oneDNN needs besides operands, per thread: grows to the largest kernel's need (0 without AMX in 3.7).
thread_local AlignedBuffer<std::byte> scratch;

// The kernels for which the thread's AMX tiles are configured.
enum class Tiles { kNone, kUkernel, kAmxProduct };
thread_local Tiles tiles = Tiles::kNone;

void GiveBackTiles() {
  const Tiles had = std::exchange(tiles, Tiles::kNone);
  if (had == Tiles::kUkernel) brgemm::release_hw_context();
  if (had == Tiles::kAmxProduct) ReleaseAmxTiles();
}

void TakeTiles(const brgemm& kernel) {
  if (tiles == Tiles::kAmxProduct) GiveBackTiles();
  kernel.set_hw_context();  // cheap when the palette is already this one
  tiles = Tiles::kUkernel;
}

void TakeTilesForAmxProduct() {
  if (tiles == Tiles::kAmxProduct) return;
  GiveBackTiles();
  LoadAmxTiles();
  tiles = Tiles::kAmxProduct;
}

}  // namespace

struct TileProduct::Kernel {
  enum class Path { kHighway, kUkernel, kTiledUkernel, kAmx };  // tiled: the thread's tiles must be configured for it
  ProductShape shape;
  Path path = Path::kHighway;
  brgemm ukernel;
  size_t scratch_bytes = 0;
};

bool UkernelServes(ProductTypes types) {
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  switch (types) {
    case ProductTypes::kF32:
      return isa != dnnl::cpu_isa::sse41 && isa != dnnl::cpu_isa::avx;
    case ProductTypes::kU8S8:
      return !LacksVnni(isa);
    case ProductTypes::kS8S8:
      return HasAmx(isa);
    case ProductTypes::kBf16:
      return HasAmx(isa) || isa == dnnl::cpu_isa::avx512_core_bf16 || isa == dnnl::cpu_isa::avx512_core_fp16 ||
             isa == dnnl::cpu_isa::avx10_1_512;
  }
  std::unreachable();
}

static std::unique_ptr<TileProduct::Kernel> Make(const ProductShape& shape) {
  using Path = TileProduct::Kernel::Path;
  auto kernel = std::make_unique<TileProduct::Kernel>();
  kernel->shape = shape;
  if (!UkernelServes(shape.types)) return kernel;
  const bool amx = HasAmx(dnnl::get_effective_cpu_isa());
  if (amx && AmxTakes(shape)) {
    kernel->path = Path::kAmx;
    return kernel;
  }
  RequireRoom();
  try {
    kernel->ukernel = Generate(shape);
  } catch (const dnnl::error& error) {
    Fail("oneDNN ukernel {} x {} x {}: {}", shape.m, shape.n, shape.k, error.what());
  }
  kernel->scratch_bytes = kernel->ukernel.get_scratchpad_size();
  kernel->path = amx && shape.types != ProductTypes::kF32 ? Path::kTiledUkernel : Path::kUkernel;
  return kernel;
}

void TileProduct::Run(const void* a, const void* b, void* c) const {
  using Path = Kernel::Path;
  if (kernel_->path == Path::kHighway) return ExactProduct(kernel_->shape, a, b, c);
  if (kernel_->path == Path::kAmx) {
    TakeTilesForAmxProduct();
    return AmxProduct(kernel_->shape, a, b, c);
  }
  static const std::vector<std::pair<dnnl::memory::dim, dnnl::memory::dim>> no_offsets(1, {0, 0});
  if (kernel_->path == Path::kTiledUkernel) TakeTiles(kernel_->ukernel);
  scratch.Reserve(kernel_->scratch_bytes);
  kernel_->ukernel.execute(a, b, no_offsets, c, scratch.data());
}

ProductScope::~ProductScope() { GiveBackTiles(); }

#else  // Highway serves what neither i8mm nor sdot does

struct TileProduct::Kernel {
  ProductShape shape;
};

bool UkernelServes(ProductTypes) { return false; }

static std::unique_ptr<TileProduct::Kernel> Make(const ProductShape& shape) {
  return std::make_unique<TileProduct::Kernel>(shape);
}

void TileProduct::Run(const void* a, const void* b, void* c) const {
  for (const ArmUnit unit : {ArmUnit::kI8mm, ArmUnit::kSdot})
    if (ArmTakes(unit, kernel_->shape)) return ArmProduct(unit, kernel_->shape, a, b, c);
  ExactProduct(kernel_->shape, a, b, c);
}

ProductScope::~ProductScope() {}

#endif

namespace {

const TileProduct::Kernel* Lookup(const ProductShape& shape) {
  static std::mutex mutex;
  static std::map<ProductShape, std::unique_ptr<TileProduct::Kernel>> kernels;
  const std::lock_guard lock(mutex);
  std::unique_ptr<TileProduct::Kernel>& kernel = kernels[shape];
  if (!kernel) kernel = Make(shape);
  return kernel.get();
}

}  // namespace

TileProduct::TileProduct(const ProductShape& shape) : kernel_(nullptr) {
  if (shape.m < 1 || shape.n < 1 || shape.k < 1)
    Fail("tile product: got {} x {} x {}, expected at least 1 of each", shape.m, shape.n, shape.k);
  kernel_ = Lookup(shape);
}

}  // namespace tare
