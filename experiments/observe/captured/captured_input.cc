// SPDX-License-Identifier: Apache-2.0
// Tokens, ids and sites of a captured file, checks of its arrays, OpenCaptured, CapturedIntake and CapturedMask.
#include "experiments/observe/captured/captured_statistics.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "quant/base/find_in.h"
#include "quant/base/message.h"

namespace tare {
namespace {

// An array [B, T] of the file's sequences; empty if there is none.
std::optional<ArrayInfo> FindOfTokens(const CapturedFile& captured, std::string_view name, int64_t B, int64_t T) {
  const ArrayInfo* const found = captured.file->Find(name);
  if (found == nullptr) return std::nullopt;
  if (found->shape != std::vector{B, T})
    Fail("{}: {}: got shape {}, expected [{}, {}] like its sequences", captured.file->path().string(), name,
         ShapeText(found->shape), B, T);
  return *found;
}

// The tokens of each sequence: all, or those that the mask lets through.
std::vector<TokenRange> TokensOf(const CapturedFile& captured, int64_t B, int64_t T) {
  std::vector<TokenRange> tokens(static_cast<size_t>(B), {0, T});
  const std::optional<ArrayInfo> array = FindOfTokens(captured, "attention_mask", B, T);
  if (!array) return tokens;
  const ArrayValues values = captured.file->Values(*array);
  std::vector<float> mask(static_cast<size_t>(T));
  for (int64_t b = 0; b < B; ++b) {
    values.Read(b * T, 1, T, mask.data());
    const auto seen = [](float m) { return m != 0.0f; };
    const auto begin = std::ranges::find_if(mask, seen), end = std::find_if_not(begin, mask.end(), seen);
    if (std::any_of(end, mask.end(), seen))
      Fail("{}: attention_mask: sequence {} has padding inside, expected it only at an end",
           captured.file->path().string(), b);
    tokens[static_cast<size_t>(b)] = {begin - mask.begin(), end - mask.begin()};
  }
  return tokens;
}

void AddIds(const CapturedFile& captured, std::vector<ScoredSequence>& sequences, bool& known) {
  const CapturedArray& any = captured.arrays.back();
  const auto B = std::ssize(captured.tokens);
  if (IsWeight(any.site)) return;
  const std::optional<ArrayInfo> array = FindOfTokens(captured, "input_ids", B, any.rows);
  known = known && array;
  if (!known) return;
  const ArrayValues values = captured.file->Values(*array);
  for (int64_t b = 0; b < B; ++b) {
    ScoredSequence sequence;
    const TokenRange range = captured.tokens[static_cast<size_t>(b)];
    for (int64_t t = range.begin; t < range.end; ++t)
      sequence.tokens.push_back(static_cast<int32_t>(values.Integer(b * any.rows + t)));
    sequences.push_back(std::move(sequence));
  }
}

// Two names may be of one layer ("layer_out.0", "layer_out.00"). The arrays are sorted.
void CheckDistinct(const std::vector<CapturedArray>& arrays, const std::string& where) {
  const auto place = [](const CapturedArray& a) { return std::pair(a.site, a.layer); };
  const auto found = std::ranges::adjacent_find(arrays, std::equal_to(), place);
  if (found == arrays.end()) return;
  const auto [first, second] = std::minmax(found[0].array.name, found[1].array.name);
  Fail("{}: got {} and {}, expected one array of a site in a layer; try removing one", where, first, second);
}

// "; try --axes with ..", axes (of arrays with the same heads) by which all arrays have so many tokens; or empty.
std::string AxesFor(int64_t tokens, const std::vector<CapturedArray>& arrays) {
  std::set<std::string> sites;
  for (const CapturedArray& a : arrays) {
    if (IsWeight(a.site) || a.rows == tokens) continue;
    if (a.heads != tokens || IsAttentionMap(a.site)) return "";
    const std::string axes = a.head_stride > a.row_stride ? "THD" : "HTD";
    sites.insert(Formatted("\"{}\": {{\"axes\": \"{}{}\"}}", Name(a.site), a.sequence_stride > 0 ? "B" : "", axes));
  }
  return sites.empty() ? "" : Formatted("; try --axes with {{{}}}", Listed(sites, ", "));
}

[[noreturn]] void FailUnequal(const CapturedArray& a, const CapturedArray& any,
                              const std::vector<CapturedArray>& arrays, const std::string& where) {
  std::string cure = AxesFor(any.rows, arrays);
  for (const CapturedArray& one : arrays) {
    if (cure.empty() && one.heads > 0) cure = AxesFor(one.heads, arrays);
  }
  Fail("{}: {}: got {} sequences of {} tokens, expected {} of {} as in {}{}", where, a.array.name, a.sequences, a.rows,
       any.sequences, any.rows, any.array.name, a.sequences == any.sequences ? cure : "");
}

std::vector<std::string> SignaturesOf(const CapturedFile& file) {
  std::vector<std::string> all;
  for (const CapturedArray& a : file.arrays) {
    if (IsWeight(a.site)) continue;
    const int64_t channels = IsAttentionMap(a.site) ? 0 : a.columns;
    all.push_back(Formatted("{} of {} heads and {} channels", a.array.name, a.heads, channels));
  }
  return all;
}

void CheckSame(const std::vector<std::string>& sites, const std::vector<std::string>& first,
               const std::vector<std::filesystem::path>& paths) {
  const auto [x, y] = std::ranges::mismatch(first, sites);
  if (x == first.end() && y == sites.end()) return;
  Fail("{}: got {}, expected {} as in {}", paths.back().string(), y == sites.end() ? "nothing more" : *y,
       x == first.end() ? "nothing more" : *x, paths.front().string());
}

ModelSites SitesOf(const CapturedFile& captured, const CapturedLayout& layout) {
  ModelSites sites{.family = "captured"};
  for (const CapturedArray& a : captured.arrays) {
    sites.layers = std::max(sites.layers, a.layer.value_or(-1) + 1);
    if (a.site == Site::kDifference) sites.maps = 2;
    if (a.site == Site::kQ) sites.head_dim = static_cast<int>(a.columns);
    std::vector<std::optional<int>>& heads = sites.heads[a.site];
    for (int head = static_cast<int>(heads.size()); head < a.heads; ++head)
      heads.push_back(layout.Of(a.site).MapOf(head, static_cast<int>(a.heads)));
  }
  std::erase_if(sites.heads, [](const auto& site) { return site.second.empty(); });
  return sites;
}

// Masks add -inf or the type's lowest value to a logit. Rounding may lift the sum; no real logit comes near 0.9 of it.
float LowestOf(DType dtype) {
  constexpr float kLargestF16 = 65504.0f;
  return -0.9f * (dtype == DType::kF16 ? kLargestF16 : std::numeric_limits<float>::max());
}

bool NothingAfterItself(const CapturedArray& map, const ArrayValues& values) {
  std::vector<float> row(static_cast<size_t>(map.columns));
  for (int64_t b = 0; b < map.sequences; ++b) {
    for (int64_t h = 0; h < map.heads; ++h) {
      for (int64_t q = 0; q < map.rows; ++q) {
        map.ReadRow(values, b, h, q, row.data());
        const int64_t seen = std::clamp<int64_t>(q + 1 + map.columns - map.rows, 0, map.columns);
        if (std::any_of(row.begin() + seen, row.end(), [](float v) { return v != 0.0f; })) return false;
      }
    }
  }
  return true;
}

}  // namespace

const CapturedArray* CapturedFile::Find(Site site, std::optional<int> layer) const {
  return FindWhere(arrays, [&](const CapturedArray& a) { return a.site == site && a.layer == layer; });
}

CapturedFile OpenCaptured(std::unique_ptr<ArrayFile> file, const CapturedLayout& layout) {
  CapturedFile captured{.file = std::move(file), .arrays = {}, .tokens = {}, .left_over = {}};
  const std::filesystem::path& path = captured.file->path();
  for (const ArrayInfo& array : captured.file->arrays()) {
    if (std::optional<CapturedArray> found = layout.Find(array, path.string())) {
      captured.arrays.push_back(*std::move(found));
    } else if (array.name != "input_ids" && array.name != "attention_mask") {
      captured.left_over.push_back(array.name);
    }
  }
  if (captured.arrays.empty())
    Fail(
        "{}: got {} arrays, none named SITE.LAYER (the first: {}), expected names like q, k.0 or layer_out.0; try "
        "--axes with {{\"q\": {{\"name\": \"NAME.{{layer}}\"}}}}",
        path.string(), captured.left_over.size(), captured.left_over.empty() ? "none" : captured.left_over.front());
  // Weights first, which have no sequences, and lambdas, which may have none; then layer by layer.
  std::ranges::sort(captured.arrays, {}, [](const CapturedArray& a) {
    const bool is_lambda = a.site == Site::kLambda;
    return std::tuple(IsWeight(a.site) ? 0 : !is_lambda ? 3 : a.row_stride == 0 ? 1 : 2, a.layer.value_or(-1), a.site);
  });
  CheckDistinct(captured.arrays, path.string());
  const CapturedArray& any = captured.arrays.back();
  if (IsWeight(any.site)) return captured;
  for (CapturedArray& a : captured.arrays) {
    if (a.site == Site::kLambda && a.row_stride == 0) a.sequences = any.sequences, a.rows = any.rows;  // [H]
    if (!IsWeight(a.site) && (a.sequences != any.sequences || a.rows != any.rows))
      FailUnequal(a, any, captured.arrays, path.string());
  }
  captured.tokens = TokensOf(captured, any.sequences, any.rows);
  return captured;
}

void CapturedIntake::Add(const CapturedFile& file) {
  input_.paths.push_back(file.file->path());
  input_.first_sequence.push_back(input_.lengths.size());
  for (const TokenRange& range : file.tokens) input_.lengths.push_back(range.Size());
  AddIds(file, ids_, known_);
  if (input_.paths.size() == 1) {
    input_.sites = SitesOf(file, input_.layout);
    input_.left_over = file.left_over;
    sites_ = SignaturesOf(file);
  } else {
    CheckSame(SignaturesOf(file), sites_, input_.paths);
  }
  for (const ArrayInfo& array : file.file->arrays()) {
    if (!std::ranges::contains(file.left_over, array.name)) AddArray(sha_, array, file.file->Values(array));
  }
}

CapturedInput CapturedIntake::Take() {
  input_.sha256 = sha_.Hex();
  input_.sequences_sha256 = known_ && !ids_.empty() ? HashOf(ids_) : input_.sha256;
  return std::move(input_);
}

CapturedInput LoadCaptured(const std::vector<std::filesystem::path>& paths, const CapturedLayout& layout) {
  CapturedIntake intake(layout);
  for (const std::filesystem::path& path : paths) intake.Add(OpenCaptured(ArrayFile::Open(path), layout));
  return intake.Take();
}

CapturedMask::CapturedMask(const CapturedFile& file, const CapturedArray& map, const ArrayValues& values,
                           const std::string& mask)
    : where_(file.file->path().string() + ": " + map.array.name),
      lowest_(LowestOf(map.array.dtype)),
      later_(map.columns - map.rows),
      columns_(map.columns) {
  if (later_ != 0 && file.tokens.front().Size() != map.rows)
    Fail("{}: got {} queries and {} keys with an attention_mask, expected equal numbers", where_, map.rows,
         map.columns);
  if (mask == "none") {
    kind_ = Kind::kNone;
  } else if (mask == "causal") {
    kind_ = Kind::kCausal;
  } else if (mask == "lowest" || (mask.empty() && map.site == Site::kAttnLogits)) {
    kind_ = Kind::kLowest;
  } else if (mask.empty()) {
    kind_ = NothingAfterItself(map, values) ? Kind::kCausal : Kind::kNone;
  } else {
    kind_ = Kind::kArray;
    const ArrayInfo* const found = file.file->Find(mask);
    if (found == nullptr)
      Fail("{}: got no array '{}' for its mask, expected one, or causal, none or lowest", where_, mask);
    const int64_t B = map.sequences, T = map.rows, S = map.columns;
    const std::vector<int64_t>& shape = found->shape;
    const bool one = shape == std::vector{T, S};
    if (!one && shape != std::vector{B, T, S} && shape != std::vector<int64_t>{B, 1, T, S})
      Fail("{}: mask {}: got shape {}, expected [{}, {}] or [{}, {}, {}]", where_, mask, ShapeText(shape), T, S, B, T,
           S);
    array_.emplace(file.file->Values(*found));
    array_sequence_ = one ? 0 : T * S;
  }
}

bool CapturedMask::Sees(int64_t sequence, int64_t query, int64_t key, float value) const {
  if (kind_ == Kind::kCausal) return key <= query + later_;
  if (kind_ == Kind::kLowest) return !(value <= lowest_);
  float seen = 1.0f;
  if (kind_ == Kind::kArray) array_->Read(sequence * array_sequence_ + query * columns_ + key, 1, 1, &seen);
  return seen != 0.0f;
}

TokenRange CapturedMask::Visible(int64_t sequence, int64_t query, std::span<const float> row, TokenRange tokens) const {
  const auto sees = [&](int64_t key) { return Sees(sequence, query, key, row[static_cast<size_t>(key)]); };
  if (later_ != 0) tokens = {0, columns_};
  TokenRange seen = tokens;
  while (seen.begin < seen.end && !sees(seen.begin)) ++seen.begin;
  seen.end = seen.begin;
  while (seen.end < tokens.end && sees(seen.end)) ++seen.end;
  for (int64_t key = seen.end; key < tokens.end; ++key) {
    if (sees(key))
      Fail("{}: sequence {}: query {} sees keys {} and {} but not {}, expected contiguous keys", where_, sequence,
           query, seen.end - 1, key, seen.end);
  }
  return seen;
}

}  // namespace tare
