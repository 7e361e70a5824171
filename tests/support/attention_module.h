// SPDX-License-Identifier: Apache-2.0
// Attention modules with random weights (tests/data/modules): x, weights and what they compute, in f32, and the steps
// up to attention in double. Those of microsoft/unilm come from the authors' code. Variants (dint, shared-diff, dex,
// tda, sa3) come from a double implementation of their formulas, which wrote s.m and p.m, logits and probabilities of
// map m, and o, attention's output before a head norm.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "kernels/attention/heads.h"

namespace tare::attention_module {

using Values = std::vector<double>;

// A module file: tensors by name as double, and the constructor's arguments.
struct Module {
  std::map<std::string, Values> tensors;
  std::map<std::string, std::string> arguments;

  int Argument(const std::string& name, int otherwise) const {
    return arguments.contains(name) ? std::stoi(arguments.at(name)) : otherwise;
  }
};

inline Module ReadModule(const std::string& name) {
  std::ifstream file(TARE_SOURCE_DIR "/tests/data/modules/" + name + ".safetensors", std::ios::binary);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string bytes = stream.str();
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  Module module;
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
  for (const auto& [key, value] : header.items()) {
    if (key == "__metadata__") {
      module.arguments = value.get<std::map<std::string, std::string>>();
      continue;
    }
    const std::vector<uint64_t> offsets = value.at("data_offsets");
    std::vector<float> data((offsets[1] - offsets[0]) / 4);
    std::memcpy(data.data(), bytes.data() + 8 + length + offsets[0], data.size() * 4);
    module.tensors[key] = Values(data.begin(), data.end());
  }
  return module;
}

// x [rows][in], w [out][in]
inline Values Project(const Values& x, const Values& w, int in) {
  const int rows = static_cast<int>(x.size()) / in, out = static_cast<int>(w.size()) / in;
  Values y(rows * out);
  for (int r = 0; r < rows; ++r)
    for (int o = 0; o < out; ++o)
      for (int i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * w[o * in + i];
  return y;
}

// The first `turned` channels of each head of width d turn by t 10000^(-2i/turned): pairs (2i, 2i+1), or (i, i +
// turned/2).
inline void Rotate(Values& x, int tokens, int width, int d, int turned, bool halves) {
  for (int row = 0; row < static_cast<int>(x.size()) / width; ++row) {
    for (int at = 0; at < width / d * (turned / 2); ++at) {
      const int head = at / (turned / 2), i = at % (turned / 2);
      double* const channels = x.data() + row * width + head * d;
      double &a = channels[halves ? i : 2 * i], &b = channels[halves ? i + turned / 2 : 2 * i + 1];
      const double angle = row % tokens * std::pow(10000.0, -2.0 * i / turned), first = a;
      a = first * std::cos(angle) - b * std::sin(angle);
      b = first * std::sin(angle) + b * std::cos(angle);
    }
  }
}
inline void Rotate(Values& x, int tokens, int width, int d) { Rotate(x, tokens, width, d, d, false); }

inline std::vector<float> Narrow(const Values& x) { return {x.begin(), x.end()}; }

inline void ExpectNear(const Values& got, const Values& want, double most = 1e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], most) << i;
}

// Rows of each head of width d divided by their length, or by their root mean square, times weight.
inline void NormHeads(Values& x, int d, double mean, double eps, const Values& weight) {
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(d)) {
    double squares = 0;
    for (int i = 0; i < d; ++i) squares += x[row + i] * x[row + i];
    for (int i = 0; i < d; ++i) x[row + i] *= (weight.empty() ? 1 : weight[i]) / std::sqrt(squares / mean + eps);
  }
}

// A variant's attention: two sequences of q [B][T][heads][d], k and v [B][S][heads][..].
struct VariantModule {
  Module module;
  std::string heads = "v1";
  Variant variant = kVariants[0];
  Mask mask;
  float lambda = 1, beta = 0, scale = 0;
  int batch = 2, tokens = 0, d = 0, count = 0;  // tokens: queries of a sequence; count: of output heads
  std::vector<float> q, k, v;

  int Maps() const { return heads == "standard" ? 1 : 2; }
};

inline constexpr const char* kVariantModules[] = {
    "dex-a",         "dex-b",      "dint-all-a", "dint-all-b",  "dint-causal-a", "dint-causal-b", "shared-diff-a",
    "shared-diff-b", "sa3-self-a", "sa3-self-b", "sa3-cross-a", "sa3-cross-b",   "tda-a",         "tda-b"};

// Columns [first, first + width) of rows that are `of` wide.
inline Values Columns(const Values& x, int of, int first, int width) {
  Values columns;
  for (size_t row = 0; row < x.size(); row += static_cast<size_t>(of))
    columns.insert(columns.end(), x.begin() + row + first, x.begin() + row + first + width);
  return columns;
}

// Stable Audio 3: rows q, k, v, q', k' of one matrix, or q, q' of one and k, k', v of another.
inline void ProjectAudio(VariantModule& a, Values& q, Values& k, Values& v) {
  std::map<std::string, Values>& t = a.module.tensors;
  const int E = a.count * a.d;
  const auto part = [&](const Values& x, int of, int i) { return Columns(x, of * E, i * E, E); };
  const auto join = [&](const Values& x, int of, int i, int j) {
    const Values first = part(x, of, i), second = part(x, of, j);
    Values both;
    for (size_t row = 0; row < first.size(); row += static_cast<size_t>(E)) {
      both.insert(both.end(), first.begin() + row, first.begin() + row + E);
      both.insert(both.end(), second.begin() + row, second.begin() + row + E);
    }
    return both;
  };
  if (t.contains("context")) {
    const Values kv = Project(t["context"], t["to_kv.weight"], E);
    q = Project(t["x"], t["to_q.weight"], E), k = join(kv, 3, 0, 1), v = part(kv, 3, 2);
  } else {
    const Values all = Project(t["x"], t["to_qkv.weight"], E);
    q = join(all, 5, 0, 3), k = join(all, 5, 1, 4), v = part(all, 5, 2);
  }
  NormHeads(q, a.d, a.d, 1e-6, t["q_norm.gamma"]);
  NormHeads(k, a.d, a.d, 1e-6, t["k_norm.gamma"]);
}

inline VariantModule ReadVariant(const std::string& name) {
  VariantModule a{.module = ReadModule(name)};
  std::map<std::string, Values>& t = a.module.tensors;
  a.d = a.module.Argument("head_dim", 0), a.count = a.module.Argument("heads", 0);
  a.scale = 1 / std::sqrt(static_cast<float>(a.d));
  if (t.contains("lambda")) a.lambda = static_cast<float>(t["lambda"][0]);
  Values q, k, v;
  if (name.starts_with("sa3")) {
    a.heads = "halves", a.mask.kind = Mask::Kind::kFull;
    ProjectAudio(a, q, k, v);
  } else {
    if (name.starts_with("dex")) a.heads = "standard";
    const int E = static_cast<int>(t["q_proj.weight"].size()) / (a.Maps() * a.count * a.d);
    for (const auto& [to, weight] : {std::pair(&q, "q_proj.weight"), {&k, "k_proj.weight"}, {&v, "v_proj.weight"}})
      *to = Project(t["x"], t[weight], E);
  }
  const int T = static_cast<int>(q.size()) / a.batch / a.Maps() / a.count / a.d;
  if (name.starts_with("tda")) {
    a.variant = kVariants[2], a.scale = 1, a.beta = static_cast<float>(t["beta"][0]);
    a.lambda = std::clamp(a.lambda, 0.0f, 1.0f);
    for (Values* x : {&q, &k}) NormHeads(*x, a.d, 1, 0, {});
  } else if (const int turned = a.module.Argument("rope_dims", a.d); turned > 0) {
    const bool halves = a.module.arguments["rope"] == "half-split";
    for (Values* x : {&q, &k}) Rotate(*x, T, static_cast<int>(x->size()) / a.batch / T, a.d, turned, halves);
  }
  if (name.starts_with("dint")) a.variant = kVariants[name.starts_with("dint-all") ? 4 : 3];
  a.q = Narrow(q), a.k = Narrow(k), a.v = Narrow(v), a.tokens = T;
  return a;
}

}  // namespace tare::attention_module
