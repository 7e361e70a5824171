// SPDX-License-Identifier: Apache-2.0
// Linear layers of models with quantized weights: many tokens, with activations of 8 bits that the call quantizes, and
// one token, and packing the weights. One-token steps cycle over so many copies of a matrix that together they have the
// MiB that the name says: 1 stays in the caches, 521 is more than any has.
#include <memory>

#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/random_quantized.h"
#include "tests/support/wrong_linear.h"

namespace tare {
namespace {

constexpr int64_t kFewOutputs = 70;  // a whole panel and a part of one

// Weights in groups of `group` inputs; 0: one scale per output.
struct Weights {
  Weights(const LinearShape& shape, const Format& format, int64_t group, Extent extent)
      : matrix(RandomQuantized(format, extent == Extent::kWhole ? shape.out : kFewOutputs, shape.in,
                               group == 0 ? shape.in : group, 1)) {}
  int64_t out() const { return matrix.view().out; }
  int64_t in() const { return matrix.view().in; }
  double Values() const { return static_cast<double>(out() * in()); }

  QuantizedMatrixBuffer matrix;
  std::vector<PackedMatrix> packed;
  std::vector<float> x, y;
};

KernelCase Linear(const std::shared_ptr<Weights>& w, int64_t rows) {
  w->packed.emplace_back(w->matrix.view());
  w->x = RandomNormal(static_cast<size_t>(rows * w->in()), 2);
  w->y.resize(static_cast<size_t>(rows * w->out()));
  const auto linear = std::make_shared<QuantizedLinear>();
  return {.run =
              [=] {
                const QuantizedProjection projection{w->packed.data(), nullptr, w->y.data()};
                linear->Project(w->x.data(), rows, {Format::kInt8, {}}, {&projection, 1});
              },
          .wrong =
              [=] {
                std::string wrong;
                for (const int64_t r : {int64_t{0}, rows - 1})
                  if (wrong.empty())
                    wrong =
                        WrongLinear(w->x.data() + r * w->in(), w->matrix.view(), nullptr, w->y.data() + r * w->out());
                return wrong;
              },
          .work = {.operations = 2 * w->Values() * static_cast<double>(rows),
                   .bytes = static_cast<double>(w->packed[0].Bytes()),
                   .limit = Limit::kU8S8}};
}

KernelCase Token(const std::shared_ptr<Weights>& w, int64_t mebibytes) {
  w->packed.emplace_back(w->matrix.view());
  const size_t bytes = w->packed[0].Bytes(), copies = (static_cast<size_t>(mebibytes) << 20) / bytes + 1;
  while (w->packed.size() < copies) w->packed.emplace_back(w->matrix.view());
  w->x = RandomNormal(static_cast<size_t>(w->in()), 2);
  w->y.resize(static_cast<size_t>(w->out()));
  const auto token = std::make_shared<OneToken>(w->in(), OneToken::BlockOf(w->packed[0]));
  const auto next = std::make_shared<size_t>(0);
  return {.run =
              [=] {
                token->Load(w->x.data());
                token->Project(w->packed[(*next)++ % copies], nullptr, w->y.data());
              },
          .wrong = [=] { return WrongToken(w->x.data(), w->matrix.view(), w->packed[0], nullptr, w->y.data()); },
          .work = {.operations = 2 * w->Values(),
                   .bytes = static_cast<double>(bytes),
                   .limit = Limit::kRead,
                   .memory = static_cast<double>(bytes * copies)}};
}

// Unpacked, the panels have the codes, in groups of 4 inputs (packed_matrix.h).
std::string WrongPanels(const Weights& w) {
  const PackedMatrix& packed = w.packed[0];
  AlignedBuffer<int8_t> scratch(static_cast<size_t>(packed.PaddedIn() * PackedMatrix::kPanel));
  std::vector<float> codes(static_cast<size_t>(w.in()));
  std::string wrong;
  for (int64_t n = 0; n < w.out() && wrong.empty(); n += w.out() - 1) {
    const QuantizedMatrix& m = w.matrix.view();
    Unpack<float>(m.format, {m.codes + static_cast<size_t>(n) * m.RowBytes(), m.RowBytes()}, codes);
    const int8_t* panel = packed.Unpacked(n / PackedMatrix::kPanel, scratch.data());
    for (int64_t i = 0; i < w.in() && wrong.empty(); ++i)
      wrong = WrongValue(Formatted("output {}, input", n), i,
                         panel[(i / 4 * PackedMatrix::kPanel + n % PackedMatrix::kPanel) * 4 + i % 4], codes[i], 0);
  }
  return wrong;
}

KernelCase Pack(const std::shared_ptr<Weights>& w) {
  return {.run =
              [=] {
                w->packed.clear();
                w->packed.emplace_back(w->matrix.view());
              },
          .wrong = [=] { return WrongPanels(*w); },
          .work = {.items = w->Values(), .item = "value", .bytes = static_cast<double>(w->matrix.view().Bytes())}};
}

}  // namespace

void AddLinearRows(std::vector<KernelRow>& table) {
  for (const LinearShape& shape : kLinearShapes) {
    for (const Format& format : kWeightFormats) {
      for (const int64_t group : {0, 64}) {
        const std::string name = Formatted("{}{}/{}", Name(format), group == 0 ? "_channel" : "_group64", shape.name);
        const auto weights = [=](Extent extent) { return std::make_shared<Weights>(shape, format, group, extent); };
        table.push_back({.name = "QuantizedLinear/quantize_matmul/int8_x_" + name,
                         .size_name = "rows",
                         .sizes = {1, 16, 512},
                         .tested = 17,
                         .make = [=](int64_t rows, Extent extent) { return Linear(weights(extent), rows); }});
        table.push_back({.name = "OneToken/quantize_matvec/" + name,
                         .size_name = "MiB",
                         .sizes = {1, 521},
                         .tested = 0,
                         .make = [=](int64_t size, Extent extent) { return Token(weights(extent), size); }});
        table.push_back({.name = "PackedMatrix/pack/" + name,
                         .size_name = "copies",
                         .sizes = {1},
                         .tested = 1,
                         .make = [=](int64_t, Extent extent) { return Pack(weights(extent)); }});
      }
    }
  }
}

}  // namespace tare
