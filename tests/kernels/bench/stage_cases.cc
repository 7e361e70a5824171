// SPDX-License-Identifier: Apache-2.0
// The steps inside integer attention, each on the calling thread and on operands that stay in the caches: packing Q, K
// and V, tile products, exponentials, codes.
#include <memory>

#include "kernels/product/tile_product.h"
#include "quant/base/message.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/code_runs.h"
#include "tests/support/packed_codes.h"
#include "tests/support/score_runs.h"

namespace tare {
namespace {

constexpr int kTileRows = 64;

// A row of one size.
KernelRow OneSize(std::string name, const char* size_name, int64_t size, std::function<KernelCase()> make) {
  return {.name = std::move(name),
          .size_name = size_name,
          .sizes = {size},
          .tested = size,
          .runs = Runs::kOnOneThread,
          .make = [make = std::move(make)](int64_t, Extent) { return make(); }};
}

// ---- packing: 64 tokens of one head

struct Tokens {
  explicit Tokens(int d) : in({.heads = 1, .queries = 64, .keys = 64, .d = d, .v_width = d}) {}
  Work WorkOf(int d) const { return {.items = 64.0 * d, .item = "value", .bytes = 64.0 * d * 4}; }

  RandomAttention in;
  AlignedBuffer<uint8_t> codes = Unwritten<uint8_t>(64 * kLargestWidth);
  AlignedBuffer<float> scales = Unwritten<float>(kLargestWidth);
  AlignedBuffer<int32_t> sums{kLargestWidth};
};

KernelCase Queries(const Format& format, int d) {
  const auto x = std::make_shared<Tokens>(d);
  return {
      .run = [=] { PackQueries(x->in.problem.q, 0, 0, 64, format, nullptr, x->codes.data(), x->scales.data()); },
      .wrong =
          [=] { return WrongQueries(x->in.problem.q, 0, 0, 64, format, nullptr, x->codes.data(), x->scales.data()); },
      .work = x->WorkOf(d)};
}

KernelCase Keys(const Format& format, int d) {
  const auto x = std::make_shared<Tokens>(d);
  const auto tile = [=] { return reinterpret_cast<int8_t*>(x->codes.data()); };
  return {
      .run =
          [=] {
            for (int key = 0; key < 64; key += 4)
              PackFourKeys(x->in.problem.k, 0, key, format, nullptr, tile(), x->sums.data(), x->scales.data());
          },
      .wrong =
          [=] { return WrongKeys(x->in.problem.k, 0, 0, format, nullptr, tile(), x->sums.data(), x->scales.data()); },
      .work = x->WorkOf(d)};
}

KernelCase Values(const Format& format, int d) {
  const auto x = std::make_shared<Tokens>(d);
  const auto tile = [=] { return reinterpret_cast<int8_t*>(x->codes.data()); };
  return {.run =
              [=] {
                const HeadsView<const float>& v = x->in.problem.v;
                ValueAbsMax(v, 0, 0, 64, nullptr, x->scales.data());
                std::fill_n(x->sums.data(), x->sums.size(), 0);
                PackValueTile(v, 0, 0, format, nullptr, x->scales.data(), tile(), 64 * 64, x->sums.data());
              },
          .wrong =
              [=] {
                return WrongValueTile(x->in.problem.v, 0, 0, format, nullptr, x->scales.data(), tile(), x->sums.data(),
                                      0);
              },
          .work = x->WorkOf(d)};
}

// ---- tile products

struct Operands {
  Operands() {
    std::mt19937 random(1);
    for (int i = 0; i < kTileRows * 128; ++i) {
      a[i] = static_cast<uint8_t>(random() % 256), b[i] = static_cast<int8_t>(random() % 255 - 127);
      fa[i] = static_cast<float>(a[i]) - 128, fb[i] = b[i];
    }
  }
  AlignedBuffer<uint8_t> a{kTileRows * 128};
  AlignedBuffer<int8_t> b{128 * 64};
  AlignedBuffer<float> fa{kTileRows * 128}, fb{128 * 64}, fc = Unwritten<float>(kTileRows * 64);
  AlignedBuffer<int32_t> c = Unwritten<int32_t>(kTileRows * 64);
};

// In integers all sums are exact; in f32 too: of 128 products below 2^14.
std::string WrongProduct(const Operands& x, bool integers) {
  std::string wrong;
  for (int i = 0; i < kTileRows * 64 && wrong.empty(); ++i) {
    const int row = i / 64, column = i % 64;
    double want = 0;
    for (int k = 0; k < 128; ++k)
      want += integers ? static_cast<double>(x.a[row * 128 + k] * x.b[(k / 4 * 64 + column) * 4 + k % 4])
                       : double{x.fa[row * 128 + k]} * x.fb[k * 64 + column];
    wrong = WrongValue("element", i, integers ? x.c[i] : x.fc[i], want, 0);
  }
  return wrong;
}

KernelCase Product(ProductTypes types, bool highway) {
  const auto x = std::make_shared<Operands>();
  const ProductShape shape{types, kTileRows, 64, 128, 128, 64, 64};
  const bool integers = types == ProductTypes::kU8S8;
  const void *a = x->a.data(), *b = x->b.data();
  void* c = x->c.data();
  if (!integers) a = x->fa.data(), b = x->fb.data(), c = x->fc.data();
  return {.run =
              [=, product = TileProduct(shape), owner = x] {
                if (highway)
                  ExactProduct(shape, a, b, c);
                else
                  product.Run(a, b, c);
              },
          .wrong = [=] { return WrongProduct(*x, integers); },
          .work = {.operations = 2.0 * kTileRows * 64 * 128, .limit = integers ? Limit::kU8S8 : Limit::kF32}};
}

// ---- exponentials

struct Scores {
  explicit Scores(RandomSums::Mask mask, RandomSums::Mean mean, int qmax = 127)
      : in(kTileRows, mask, mean, 1), score(in), logit(in, qmax) {}
  RandomSums in;
  ScoreRun score;
  LogitRun logit;
};
const Work kTileWork = {.items = kTileRows * 64, .item = "pair"};

KernelCase Score(RandomSums::Mask mask, RandomSums::Mean mean) {
  const auto x = std::make_shared<Scores>(mask, mean);
  return {.run = [=] { x->score.Run(); }, .wrong = [=] { return x->score.Wrong(); }, .work = kTileWork};
}

KernelCase Logit(const Format& format, void (LogitRun::*step)()) {
  const auto x = std::make_shared<Scores>(RandomSums::Mask::kNone, RandomSums::Mean::kNone, Info(format).max_code);
  for (const auto each : {&LogitRun::Logits, &LogitRun::Tables, &LogitRun::Lookup}) (x->logit.*each)();
  return {.run = [=] { (x->logit.*step)(); }, .wrong = [=] { return x->logit.Wrong(); }, .work = kTileWork};
}

// ---- codes

template <typename Run>
KernelCase Codes(std::shared_ptr<Run> x) {
  return {.run = [=] { x->Run(); },
          .wrong = [=] { return x->Wrong(); },
          .work = {.items = RandomBlock::kRows * RandomBlock::kTiles * 64, .item = "pair"}};
}

}  // namespace

void AddStageRows(std::vector<KernelRow>& table) {
  for (const Format& format : kSignedFormats) {
    for (const int d : {64, 128}) {
      const auto add = [&](const char* what, KernelCase (*make)(const Format&, int)) {
        table.push_back(OneSize(Formatted("Packing/quantize_pack_{}/{}/d{}", what, Name(format), d), "tokens", 64,
                                [=] { return make(format, d); }));
      };
      add("q", Queries), add("k", Keys), add("v", Values);
    }
  }
  const auto product = [&](const char* name, ProductTypes types, bool highway) {
    table.push_back(
        OneSize(Formatted("{}/64x64x128", name), "rows", kTileRows, [=] { return Product(types, highway); }));
  };
  product("TileProduct/matmul/u8s8", ProductTypes::kU8S8, false);
  product("TileProduct/matmul/f32", ProductTypes::kF32, false);
  product("ExactProduct/matmul/u8s8", ProductTypes::kU8S8, true);

  using Masked = RandomSums::Mask;
  using Mean = RandomSums::Mean;
  const auto score = [&](const char* name, Masked mask, Mean mean) {
    table.push_back(
        OneSize(Formatted("ScoreStage/exponentials/{}", name), "rows", kTileRows, [=] { return Score(mask, mean); }));
  };
  score("unmasked", Masked::kNone, Mean::kNone);
  score("masked", Masked::kRandom, Mean::kNone);
  score("smoothed", Masked::kNone, Mean::kOfQ);
  for (const Format& format : kSignedFormats) {
    for (const auto& [name, step] : {std::pair{"logits", &LogitRun::Logits}, std::pair{"tables", &LogitRun::Tables},
                                     std::pair{"lookup", &LogitRun::Lookup}})
      table.push_back(OneSize(Formatted("LogitStage/{}/{}", name, Name(format)), "rows", kTileRows,
                              [=] { return Logit(format, step); }));
  }
  for (const Format& format : kMapFormats)
    table.push_back(OneSize(Formatted("CodeStage/late/{}", Name(format)), "rows", RandomBlock::kRows,
                            [=] { return Codes(std::make_shared<LateRun>(1, Info(format).max_code)); }));
  for (const Format& format : kDifferenceFormats)
    table.push_back(OneSize(Formatted("CodeStage/early/{}", Name(format)), "rows", RandomBlock::kRows,
                            [=] { return Codes(std::make_shared<EarlyRun>(format)); }));
}

}  // namespace tare
