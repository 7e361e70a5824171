// SPDX-License-Identifier: Apache-2.0
// Steps on rows of f32: rotations, Mamba's scan and convolution, exponentials. Rows of exponentials are cold functions
// inside vectors elsewhere: FixedExp2 is the scalar that ScoreStage vectorizes.
#include <cmath>
#include <memory>

#include "kernels/attention/exponentials.h"
#include "kernels/decode/page_softmax.h"
#include "kernels/elementwise/rows.h"
#include "quant/base/message.h"
#include "tests/kernels/bench/kernel_table.h"
#include "tests/support/fixed_exp2.h"
#include "tests/support/random_quantized.h"
#include "tests/support/random_scan.h"
#include "tests/support/wrong.h"

namespace tare {
namespace {

struct Rows {
  Rows(int64_t count, int64_t n) : x(RandomNormal(static_cast<size_t>(count * n), 1)), y(x.size()) {}
  Work WorkOn(double passes) const {
    const double values = static_cast<double>(x.size());
    return {
        .items = values, .item = "value", .bytes = 4 * values * passes, .limit = Limit::kRead, .memory = 4 * values};
  }
  std::vector<float> x, y;
};

// The bound of rows.h, in the largest magnitude's terms: a run's sum of magnitudes over sqrt(run).
KernelCase HadamardRows(int64_t rows, int64_t n, int run) {
  const auto x = std::make_shared<Rows>(rows, n);
  const auto rotation = std::make_shared<Hadamard>(n, 5, run);
  return {.run = [=] { RotateRows(*rotation, x->x.data(), rows, x->y.data()); },
          .wrong =
              [=] {
                std::vector<float> exact(static_cast<size_t>(n));
                std::string wrong;
                const int64_t length = rotation->run();
                const double roundings = static_cast<double>(rotation->base()) +
                                         std::log2(static_cast<double>(length / rotation->base())) + 3;
                for (int64_t r = 0; r < rows && wrong.empty(); r += std::max<int64_t>(1, rows - 1)) {
                  const float *from = x->x.data() + r * n, *got = x->y.data() + r * n;
                  rotation->Rotate(from, exact.data());
                  for (int64_t i = 0; i < n && wrong.empty(); ++i) {
                    double sum = 0;
                    for (int64_t j = i / length * length; j < (i / length + 1) * length; ++j)
                      sum += std::abs(double{from[j]});
                    wrong = WrongValue(Formatted("row {}, channel", r), i, got[i], exact[i],
                                       roundings * 0x1p-24 * sum / std::sqrt(static_cast<double>(length)));
                  }
                }
                return wrong;
              },
          .work = x->WorkOn(2)};
}

// Rotary positions: each pair (a, b) by an angle; products and a sum, three roundings of 2^-24 of |a| + |b|.
KernelCase Rotary(int64_t rows, int d, bool interleaved) {
  struct State : Rows {
    State(int64_t count, int width) : Rows(count, width), cosine(width / 2), sine(width / 2) {
      for (int i = 0; i < width / 2; ++i)
        cosine[i] = std::cos(static_cast<float>(i)), sine[i] = std::sin(static_cast<float>(i));
    }
    std::vector<float> cosine, sine;
  };
  const auto x = std::make_shared<State>(rows, d);
  return {.run =
              [=] {
                std::ranges::copy(x->x, x->y.begin());
                for (int64_t r = 0; r < rows; ++r)
                  (interleaved ? RotateInterleaved : RotateHalf)(x->y.data() + r * d, x->cosine.data(), x->sine.data(),
                                                                 static_cast<size_t>(d));
              },
          .wrong =
              [=] {
                std::string wrong;
                for (int64_t i = 0; i < rows * d / 2 && wrong.empty(); ++i) {
                  const int64_t row = i / (d / 2) * d, pair = i % (d / 2);
                  const int64_t at = row + (interleaved ? 2 * pair : pair), second = at + (interleaved ? 1 : d / 2);
                  const double a = x->x[at], b = x->x[second], c = x->cosine[pair], s = x->sine[pair];
                  const double bound = 3 * 0x1p-24 * (std::abs(a) + std::abs(b));
                  wrong = WrongValue("value", at, x->y[at], a * c - b * s, bound);
                  if (wrong.empty()) wrong = WrongValue("value", second, x->y[second], b * c + a * s, bound);
                }
                return wrong;
              },
          .work = x->WorkOn(2)};
}

// A state is a sum of a token's term and what is left of earlier ones: within 1e-5 (selective_scan_test.cc).
KernelCase Scan(int64_t tokens, int64_t channels, bool convolution) {
  struct State : RandomScan {
    State(int64_t length, int64_t width) : RandomScan(length, width, 16, 4), scan(p), y(x.size()) {}
    ScanState scan;
    std::vector<float> y;
  };
  const auto x = std::make_shared<State>(tokens, channels);
  const double values = static_cast<double>(tokens * channels);
  return {.run =
              [=] {
                std::ranges::fill(x->scan.state, 0.0f);
                std::ranges::fill(x->scan.history, 0.0f);
                const TokenRows<float> y{x->y.data(), channels};
                if (convolution)
                  CausalConvolution(x->p, {0, channels}, tokens, x->At(0).u, x->scan.history.data(), y);
                else
                  SelectiveScan(x->p, {0, channels}, tokens, x->At(0), x->scan.state.data(), y);
              },
          .wrong =
              [=] {
                std::vector<float> last;
                return WrongValues<float, float>("value", x->y,
                                                 convolution ? PlainConvolution(*x) : PlainScan(*x, &last), 1e-5);
              },
          .work = {.items = values * (convolution ? 4 : 16),
                   .item = convolution ? "tap" : "state",
                   .bytes = values * (convolution ? 8 : 12),
                   .limit = Limit::kRead,
                   .memory = values * (convolution ? 8 : 12)}};
}

// Scalars, and their bounds in exponentials.h.
KernelCase Exponentials(bool of_rows) {
  struct State {
    std::vector<float> x, y;
  };
  const auto s = std::make_shared<State>();
  for (int i = 0; i < 4096; ++i) s->x.push_back(of_rows ? -0.03f * static_cast<float>(i) : static_cast<float>(8 * i));
  s->y.resize(s->x.size());
  return {.run =
              [=] {
                for (size_t i = 0; i < s->x.size(); ++i)
                  s->y[i] = of_rows ? RowExp2(s->x[i]) : static_cast<float>(FixedExp2(static_cast<int>(s->x[i])));
              },
          .wrong =
              [=] {
                std::string wrong;
                for (size_t i = 0; i < s->x.size() && wrong.empty(); ++i) {
                  const double want = of_rows ? std::exp2(double{s->x[i]}) : 32768 * std::exp2(-s->x[i] / 2048.0);
                  wrong = WrongValue("value", static_cast<int64_t>(i), s->y[i], want,
                                     of_rows ? 4e-7 * want : 2.3e-4 * want + 1);
                }
                return wrong;
              },
          .work = {.items = 4096, .item = "value"}};
}

// A page of 64 keys of decoding's f32 exponentials: logits of a few octaves are rounded to 2^-20.
KernelCase Page() {
  struct State {
    AlignedBuffer<float> products{64}, scales{64}, p = Unwritten<float>(64);
    SoftmaxSum sum{};
  };
  const auto s = std::make_shared<State>();
  const std::vector<float> values = RandomNormal(128, 7);
  for (int i = 0; i < 64; ++i) s->products[i] = values[i], s->scales[i] = 1 + std::abs(values[64 + i]);
  return {.run =
              [=] {
                s->sum = ExponentialsOfPart({.products = s->products.data(),
                                             .key_scales = s->scales.data(),
                                             .factor = 2.5f,
                                             .keys = {0, 64},
                                             .seen = {0, 64}},
                                            s->p.data());
              },
          .wrong =
              [=] {
                std::vector<double> logits, want;
                for (int i = 0; i < 64; ++i) logits.push_back(2.5 * double{s->scales[i]} * double{s->products[i]});
                double sum = 0;
                for (const double logit : logits) want.push_back(std::exp2(logit - *std::ranges::max_element(logits)));
                for (const double p : want) sum += p;
                std::string wrong = WrongValues<float, double>("p", s->p.span(), want, 4e-6);
                return wrong.empty() ? WrongValue("sum", 0, s->sum.sum, sum, 64 * 4e-6) : wrong;
              },
          .work = {.items = 64, .item = "key"}};
}

KernelRow Row(std::string name, Runs runs, const char* size_name, std::vector<int64_t> sizes, int64_t tested,
              std::function<KernelCase(int64_t)> make) {
  return {.name = std::move(name),
          .size_name = size_name,
          .sizes = std::move(sizes),
          .tested = tested,
          .runs = runs,
          .make = [make = std::move(make)](int64_t size, Extent) { return make(size); }};
}

}  // namespace

void AddElementRows(std::vector<KernelRow>& table) {
  // A head's channels, a layer's inputs, and inputs of down_proj in runs.
  for (const auto& [n, run] : {std::pair{64, 0}, std::pair{128, 0}, std::pair{2048, 0}, std::pair{8192, 128}}) {
    table.push_back(Row(Formatted("RotateRows/hadamard/{}{}", n, run == 0 ? "" : Formatted("_runs{}", run)),
                        Runs::kOnAllThreads, "rows", {16, 512}, 3,
                        [=](int64_t rows) { return HadamardRows(rows, n, run); }));
  }
  for (const bool interleaved : {false, true}) {
    for (const int d : {64, 128})
      table.push_back(Row(Formatted("Rows/rotary_{}/d{}", interleaved ? "interleaved" : "half", d), Runs::kOnOneThread,
                          "rows", {512}, 3, [=](int64_t rows) { return Rotary(rows, d, interleaved); }));
  }
  for (const bool convolution : {false, true})
    table.push_back(Row(Formatted("SelectiveScan/{}/Phi-4-mini-flash", convolution ? "convolution" : "scan"),
                        Runs::kOnOneThread, "tokens", {1, 512}, 37,
                        [=](int64_t tokens) { return Scan(tokens, 5120, convolution); }));
  for (const bool of_rows : {false, true})
    table.push_back(Row(Formatted("Exponentials/scalar/{}", of_rows ? "RowExp2" : "FixedExp2"), Runs::kOnOneThread,
                        "values", {4096}, 4096, [=](int64_t) { return Exponentials(of_rows); }));
  table.push_back(
      Row("PageSoftmax/exponentials/f32", Runs::kOnOneThread, "keys", {64}, 64, [](int64_t) { return Page(); }));
}

}  // namespace tare
