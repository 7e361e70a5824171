// SPDX-License-Identifier: Apache-2.0
// Inputs, progress by layer, pieces through caches, windows and cuts, batches, passes over all sequences, ScoredTokens.
#include "experiments/passes/sequences.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "quant/base/message.h"

namespace tare {
namespace {

// Tokens of a batch that go through one cache.
struct Piece {
  SequenceCache* cache = nullptr;
  int64_t index = 0;
  int64_t row = 0, end = 0;  // of the batch: what is left of it
};

// Reports tokens of one batch as parts of it, as its layers end, before the whole batch is reported.
class LayerProgress : public SiteVisitor {
 public:
  // done, total: before the batch, and of all.
  LayerProgress(const Progress& progress, int64_t rows, int layers, int64_t done, int64_t total)
      : progress_(progress), rows_(rows), layers_(layers), done_(done), total_(total) {}

  bool Wants(Site site, std::optional<int> layer) const override {
    return site == Site::kLayerOut && layer && *layer + 1 < layers_;
  }
  void Visit(const SiteBlock& block, int) override {
    const std::lock_guard lock(mutex_);
    seen_ += block.rows;
    if (seen_ % rows_ == 0) Report(progress_, done_ + seen_ / layers_, total_, "tokens");
  }

 private:
  const Progress& progress_;
  int64_t rows_;
  int layers_;
  int64_t done_, total_, seen_ = 0;
  std::mutex mutex_;
};

using Body = std::function<void(const TokenBatch& pass, const std::vector<int64_t>& rows)>;

void RunPieces(Model& model, SiteVisitors visitors, const TokenBatch& whole, std::vector<Piece>& pieces,
               const Body& body) {
  while (true) {
    TokenBatch pass;
    std::vector<int64_t> rows;
    for (Piece& piece : pieces) {
      const int64_t count = std::min(piece.cache->TokensAtOnce(), piece.end - piece.row);
      if (count == 0) continue;
      const auto first = static_cast<size_t>(piece.row);
      pass.AddAfter(*piece.cache, piece.index, std::span(whole.tokens).subspan(first, static_cast<size_t>(count)));
      for (int64_t i = 0; i < count; ++i) rows.push_back(piece.row++);
    }
    if (rows.empty()) return;
    model.Forward(pass, visitors);
    body(pass, rows);
  }
}

// Positions of a window if no option gives them.
int64_t UsualWindow(const TokenInput& input) {
  if (input.kind != TokenInput::Kind::kIds) return kTextWindow;
  size_t row = 0;
  for (const auto& sequence : input.sequences) row = std::max(row, sequence.size());
  return static_cast<int64_t>(row);
}

struct RowWindow {
  const std::vector<int32_t>* row = nullptr;
  Window window;
};

// Cuts a row of n tokens.
using CutRow = std::function<std::vector<Window>(size_t n)>;

// The windows of the first `tokens` tokens of all rows together; 0: of all tokens.
std::vector<RowWindow> WindowsOf(const TokenInput& input, int64_t tokens, const CutRow& cut) {
  std::vector<RowWindow> windows;
  size_t left = tokens == 0 ? SIZE_MAX : static_cast<size_t>(tokens);
  for (const std::vector<int32_t>& row : input.sequences) {
    const size_t n = std::min(row.size(), left);
    left -= n;
    for (const Window& window : cut(n)) windows.push_back({&row, window});
  }
  return windows;
}

// How many windows --tokens and --limit leave of `all`, if each scores `scored` tokens.
size_t CountOf(const WindowOptions& options, size_t scored, size_t all) {
  if (options.tokens != 0) all = std::min(all, std::max<size_t>(1, static_cast<size_t>(options.tokens) / scored));
  return options.limit == 0 ? all : std::min(all, static_cast<size_t>(options.limit));
}

// The windows within --tokens and --limit: the first, or the middle of each of equal parts; where --tokens is less than
// a whole window scores, one window that long.
std::vector<RowWindow> TakenWindows(const TokenInput& input, const WindowOptions& options, size_t scored,
                                    const CutRow& cut) {
  if (options.from == TakeFrom::kStart) {
    std::vector<RowWindow> first = WindowsOf(input, options.tokens, cut);
    if (options.limit != 0) first.resize(std::min(first.size(), static_cast<size_t>(options.limit)));
    return first;
  }
  const std::vector<RowWindow> all = WindowsOf(input, 0, cut);
  const size_t count = CountOf(options, scored, all.size()), tokens = static_cast<size_t>(options.tokens);
  std::vector<RowWindow> taken;
  for (size_t i = 0; i < count; ++i) {
    auto& [row, w] = taken.emplace_back(all[(2 * i + 1) * all.size() / (2 * count)]);
    if (tokens != 0 && tokens < scored) w = {w.begin, std::min(w.end, w.begin + tokens), w.begin};
  }
  return taken;
}

// Throws Error for more tokens than 1 GiB holds in windows that overlap: n windows of m of a text of n, at worst.
void CheckOverlap(const std::vector<RowWindow>& windows) {
  constexpr size_t kMost = size_t{1} << 28;
  size_t run = 0, scored = 0;
  for (const auto& [row, w] : windows) run += w.end - w.begin, scored += w.end - w.first_scored;
  if (run > std::max(kMost, 2 * scored))
    FailUsage("--stride: got {} windows that overlap, {} tokens, expected at most {}; try a larger stride, or --tokens",
              windows.size(), run, kMost);
}

// scored: tokens that a whole window scores.
std::vector<ScoredSequence> CutRows(const TokenInput& input, const WindowOptions& options, size_t scored,
                                    const CutRow& cut) {
  std::vector<ScoredSequence> sequences;
  const std::vector<RowWindow> taken = TakenWindows(input, options, scored, cut);
  CheckOverlap(taken);
  for (const auto& [row, w] : taken) {
    ScoredSequence& s = sequences.emplace_back();
    const bool puts_bos = input.bos && (*row)[w.begin] != *input.bos;  // unless the text has its own there
    if (puts_bos) s.tokens.push_back(*input.bos);
    s.tokens.insert(s.tokens.end(), row->begin() + static_cast<ptrdiff_t>(w.begin),
                    row->begin() + static_cast<ptrdiff_t>(w.end));
    s.first_target = std::max<int64_t>(1, static_cast<int64_t>(w.first_scored - w.begin) + (puts_bos ? 1 : 0));
  }
  return sequences;
}

}  // namespace

TokenInput IdsOf(const Images& images, const std::filesystem::path& path) {
  TokenInput input{.kind = TokenInput::Kind::kIds, .path = path, .sha256 = Sha256OfInput(path)};
  for (int64_t i = 0; i < images.size(); ++i) input.sequences.push_back(images.Sequence(i));
  return input;
}

TokenInput LoadModelInput(const std::filesystem::path& path, Model& model, const TextPart& part) {
  if (model.config().SeesImages()) model.Show(std::make_shared<const Images>(path, model.config()));
  return LoadInput(path, model.folder(), model.config(), part);
}

TokenInput LoadInput(const std::filesystem::path& path, const std::filesystem::path& folder, const ModelConfig& config,
                     const TextPart& part) {
  if (config.SeesImages()) return IdsOf(Images(path, config), path);
  return LoadTokenInput(path, folder, config.vocabulary, part);
}

Shard ParseShard(std::string_view option, std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto index = ParseNumber<size_t>(text.substr(0, slash));
  const auto count = ParseNumber<size_t>(text.substr(std::min(slash + 1, text.size())));
  if (!index || !count || *index >= *count)
    FailUsage("{}: got '{}', expected i/n with i from 0 to n - 1, for example 0/4", option, text);
  return {*index, *count};
}

std::string_view Name(TakeFrom from) { return from == TakeFrom::kSpread ? "spread" : "start"; }

TextPart WindowOptions::NeededOf(const ModelConfig& config) const {
  if (Part() == TakeFrom::kStart) return {.first = tokens != 0 ? static_cast<size_t>(tokens) : SIZE_MAX};
  const auto positions =
      static_cast<size_t>(window == 0 ? std::min<int64_t>(kTextWindow, config.max_positions) : window);
  // Windows that overlap, and all of them, are cut from the whole text.
  if (stride != 0 || !TakesPart() || positions < 3) return {};
  // Without `<s>` a window scores two positions fewer than it has.
  const size_t windows = CountOf(*this, positions - 2, SIZE_MAX);
  return {.windows = windows, .positions = positions};
}

void PassThroughCaches(Model& model, SiteVisitors visitors, const TokenBatch& whole, const CachePlan& plan,
                       const Body& body) {
  std::list<SequenceCache> caches;
  std::vector<Piece> prefixes, branches;
  for (const AttentionSequence& s : whole.sequences) {
    SequenceCache& cache = caches.emplace_back(model.config(), plan);
    cache.ExpectPrompt(s.prefix, s.branches.empty() ? 0 : *std::ranges::max_element(s.branches));
    prefixes.push_back({&cache, s.index, s.first_row, s.first_row + s.prefix});
  }
  RunPieces(model, visitors, whole, prefixes, body);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const AttentionSequence& s = whole.sequences[i];
    int64_t row = s.first_row + s.prefix;
    for (const int64_t tokens : s.branches) {
      SequenceCache& fork = caches.emplace_back(*prefixes[i].cache);
      branches.push_back({&fork, s.index, row, row + tokens});
      row += tokens;
    }
  }
  RunPieces(model, visitors, whole, branches, body);
}

std::vector<Window> CutWindows(size_t n, size_t tokens_per_window, size_t stride) {
  if (tokens_per_window == 0) Fail("windows: got 0 tokens per window, expected at least 1");
  if (stride == 0 || stride > tokens_per_window)
    Fail("windows: got stride {}, expected 1 to {}, the tokens of a window", stride, tokens_per_window);
  std::vector<Window> windows;
  const size_t length = std::min(n, tokens_per_window);
  for (size_t begin = 0, scored = 0; scored < n; begin += stride) {
    begin = std::min(begin, n - length);
    windows.push_back({begin, begin + length, scored});
    scored = begin + length;
  }
  return windows;
}

void CheckWindow(int64_t window, int64_t least, const ModelConfig& config) {
  const int most = std::max(config.max_positions, config.positions_reached);
  if (window < least || window > most)
    FailUsage("--window: got {}, expected {} to {} (the checkpoint's max_position_embeddings)", window, least, most);
  if (window > config.max_positions)
    Notice(Formatted("--window {}: more than max_position_embeddings {}, within the {} that rope_scaling reaches",
                     window, config.max_positions, most));
}

WindowCut CutOf(const TokenInput& input, const ModelConfig& config, const WindowOptions& options) {
  const int64_t bos = input.bos ? 1 : 0, usual = UsualWindow(input);
  const int64_t window = options.window == 0 ? std::min<int64_t>(usual, config.max_positions) : options.window;
  CheckWindow(window, 1 + bos, config);
  const int64_t held = window - bos;
  // Without <s>, windows share a token: the first of each is scored as the last of the one before.
  const int64_t widest = bos == 1 ? held : std::max<int64_t>(1, held - 1);
  if (options.stride < 0 || options.stride > widest)
    FailUsage("--stride: got {}, expected 1 to {}, or 0 for that", options.stride, widest);
  const int64_t stride = options.stride == 0 ? widest : options.stride;
  int64_t tokens = 0;
  for (const auto& row : input.sequences) tokens += std::ssize(row);
  return {.window = window,
          .stride = stride,
          .bos = bos == 1,
          .cut_to_positions = options.window == 0 && usual > config.max_positions,
          .from = options.TakesPart() ? std::optional(options.from) : std::nullopt,
          .of_tokens = input.whole ? std::optional(tokens) : std::nullopt,
          .at_lines = input.in_windows};
}

std::vector<ScoredSequence> CutSequences(const TokenInput& input, const ModelConfig& config,
                                         const WindowOptions& options) {
  const WindowCut cut = CutOf(input, config, options);
  return CutRows(input, options, static_cast<size_t>(cut.stride),
                 [&](size_t n) { return CutWindows(n, cut.Tokens(), static_cast<size_t>(cut.stride)); });
}

std::vector<ScoredSequence> CutDisjoint(const TokenInput& input, const ModelConfig& config,
                                        const WindowOptions& options) {
  if (options.stride != 0) FailUsage("--stride: got {}, expected 0: a token is observed once", options.stride);
  const size_t held = CutOf(input, config, options).Tokens();
  return CutRows(input, options, held, [&](size_t n) {
    std::vector<Window> windows;
    for (size_t begin = 0; begin < n; begin += held) windows.push_back({begin, std::min(begin + held, n), begin});
    return windows;
  });
}

size_t SequencesPerBatch(const std::vector<ScoredSequence>& sequences) {
  size_t longest = 1;
  for (const ScoredSequence& s : sequences) longest = std::max(longest, s.Run().size());
  return std::max<size_t>(1, 2048 / longest);
}

TokenBatch BatchOf(const std::vector<ScoredSequence>& sequences, size_t begin, size_t count) {
  TokenBatch batch;
  for (size_t i = begin; i < std::min(begin + count, sequences.size()); ++i)
    batch.Add(static_cast<int64_t>(i), sequences[i].Run());
  return batch;
}

void ForwardBatch(Model& model, const TokenBatch& batch, SiteVisitors visitors, const Progress& progress, int64_t done,
                  int64_t total) {
  constexpr int64_t kLong = 4096;  // twice as many rows as a batch of several sequences has
  if (batch.Rows() < kLong) return model.Forward(batch, visitors);
  LayerProgress layers(progress, batch.Rows(), model.config().layers, done, total);
  std::vector<SiteVisitor*> all(visitors.begin(), visitors.end());
  all.push_back(&layers);
  model.Forward(batch, all);
}

void CheckCacheOfTexts(const CachePlan& plan) {
  if (plan.policy.keep.DropsOnce())
    Fail("cache {}: got a text, expected items or a prompt, whose end chooses the keys; try keep=h2o", Name(plan));
}

void ForwardAll(Model& model, SiteVisitors visitors, const std::vector<ScoredSequence>& sequences,
                const Progress& progress, const std::function<void(const TokenBatch&)>& body,
                const std::optional<CachePlan>& plan) {
  int64_t total = 0, done = 0, longest = 0;
  for (const ScoredSequence& s : sequences) {
    total += std::ssize(s.Run());
    longest = std::max(longest, std::ssize(s.Run()));
  }
  if (plan) {
    CheckCacheOfTexts(*plan);
    CheckCacheFits(model.config(), *plan, longest);
  }
  const auto finish = [&](const TokenBatch& pass) {
    body(pass);
    done += pass.Rows();
    Report(progress, done, total, "tokens");
  };
  const size_t step = SequencesPerBatch(sequences);
  for (size_t begin = 0; begin < sequences.size(); begin += step) {
    const TokenBatch batch = BatchOf(sequences, begin, step);
    if (plan) {
      PassThroughCaches(model, visitors, batch, *plan,
                        [&](const TokenBatch& pass, const std::vector<int64_t>&) { finish(pass); });
    } else {
      ForwardBatch(model, batch, visitors, progress, done, total);
      finish(batch);
    }
  }
}

ScoredTokens::ScoredTokens(const std::vector<ScoredSequence>& sequences) : sequences_(sequences), first_{0} {
  for (const ScoredSequence& s : sequences)
    first_.push_back(first_.back() + static_cast<size_t>(std::max<int64_t>(0, std::ssize(s.tokens) - s.first_target)));
}

PredictedTokens ScoredTokens::In(const TokenBatch& batch) const {
  PredictedTokens all;
  for (const AttentionSequence& b : batch.sequences) {
    const ScoredSequence& s = sequences_[static_cast<size_t>(b.index)];
    const int64_t end = std::min(std::ssize(s.tokens), b.past + b.prefix + 1);
    for (int64_t t = std::max(s.first_target, b.past + 1); t < end; ++t) {
      all.rows.push_back(b.first_row + t - 1 - b.past);
      all.targets.push_back(s.tokens[static_cast<size_t>(t)]);
      all.contexts.push_back(t);
      all.windows.push_back(static_cast<size_t>(b.index));
      all.places.push_back(first_[static_cast<size_t>(b.index)] + static_cast<size_t>(t - s.first_target));
    }
  }
  return all;
}

}  // namespace tare
