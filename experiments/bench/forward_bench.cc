// SPDX-License-Identifier: Apache-2.0
#include "experiments/bench/forward_bench.h"

#include <algorithm>
#include <memory>
#include <span>

#include "experiments/bench/roofline.h"
#include "quant/file/safetensors.h"

namespace tare {
namespace {

// Ids that follow each other as a linear congruence: every embedding row is touched, none is hot.
TokenBatch MakeBatch(const Model& model, const ForwardBench& bench) {
  const ModelConfig& config = model.config();
  TokenBatch batch;
  if (config.SeesImages()) {
    for (int64_t b = 0; b < bench.batch; ++b) batch.Add(b, model.images()->Sequence(b));
    return batch;
  }
  uint32_t id = 1;
  for (int64_t b = 0; b < bench.batch; ++b) {
    std::vector<int32_t> tokens(bench.tokens);
    for (int32_t& token : tokens)
      token = static_cast<int32_t>((id = id * 1664525u + 1013904223u) >> 8) % config.vocabulary;
    batch.Add(b, tokens);
  }
  return batch;
}

}  // namespace

double ForwardFlop(const ModelConfig& c, int64_t batch, int64_t tokens) {
  double linear = 0, attention = 0;
  for (int i = 0; i < c.layers; ++i) {
    for (const LinearPlace& place : LinearOf(FamilyOf(c), c, i)) {
      const auto [out, in] = ShapeOf(place.weight, c);
      linear += static_cast<double>(out) * static_cast<double>(in) * (place.experts != nullptr ? c.chosen_experts : 1);
    }
  }
  for (const OutputHead& head : HeadTable(c)) attention += head.Maps() * (2.0 + 2.0 * head.VSlices()) * c.head_dim;
  const double rows = static_cast<double>(batch * tokens);
  double pairs = 0;  // of all layers, under their masks
  for (int i = 0; i < c.layers; ++i) {
    if (c.KeysLayer(i) < 0) continue;
    const double window = c.Window(i) > 0 ? std::min<double>(c.Window(i), tokens) : tokens;
    pairs += static_cast<double>(batch) * (c.SeesImages() ? double(tokens) * double(tokens)
                                                          : window * (window + 1) / 2 + (tokens - window) * window);
  }
  return 2 * rows * (linear + double(c.hidden) * (c.Outputs() + 3.0 * c.patch_size * c.patch_size)) + pairs * attention;
}

void ShowRandomImages(Model& tower, const std::filesystem::path& folder, int64_t count) {
  const int64_t side = tower.config().image_size;
  std::vector<float> pixels(static_cast<size_t>(count * 3 * side * side));
  uint32_t bits = 1;
  for (float& pixel : pixels) pixel = static_cast<float>((bits = bits * 1664525u + 1013904223u) >> 8) * 0x1p-22f - 2;
  const std::filesystem::path file = folder / "images.safetensors";
  WriteSafetensors(file, {{"images", DType::kF32, {count, 3, side, side}, std::as_bytes(std::span(pixels))}});
  tower.Show(std::make_shared<const Images>(file, tower.config()));
}

ForwardTiming TimeForward(Model& model, const ForwardBench& bench, SiteVisitors visitors) {
  const TokenBatch batch = MakeBatch(model, bench);
  std::vector<int64_t> rows(batch.Rows());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
  constexpr int64_t kSide = 2048;
  const std::function<double()> matmul = MatmulOf(model.math(), kSide, kSide, kSide);
  std::vector<double> forward_seconds, matmul_seconds;
  for (int i = 0; i <= bench.repetitions; ++i) {
    const double matmul_once = std::min(matmul(), matmul());
    const double start = Seconds();
    model.Forward(batch, visitors);
    model.VocabularyLogits(rows, [](size_t, const float*, int) {});
    const double forward_once = Seconds() - start;
    if (i == 0) continue;  // primitives are made and pages read the first time
    matmul_seconds.push_back(matmul_once);
    forward_seconds.push_back(forward_once);
  }
  const auto [median, spread] = TimingOf(forward_seconds);
  ForwardTiming timing{.seconds = median, .spread = spread};
  timing.tokens_per_second = static_cast<double>(batch.Rows()) / timing.seconds;
  timing.gflops = ForwardFlop(model.config(), bench.batch, bench.tokens) / timing.seconds * 1e-9;
  timing.matmul_gflops = 2.0 * kSide * kSide * kSide / TimingOf(matmul_seconds).median * 1e-9;
  timing.share = timing.gflops / timing.matmul_gflops;
  return timing;
}

}  // namespace tare
