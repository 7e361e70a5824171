// SPDX-License-Identifier: Apache-2.0
// tare stats --tensors: a statistics file of arrays captured elsewhere. A unit of work is a file; weights: the first's.
//
// The loss of attention's output (output_error_*) is not measured: it needs more than the site's own values.
// cancellation needs maps (probs, with "maps") and difference. captured_layer.cc: a layer's attention, from q, k and v.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/arrays/array_file.h"
#include "experiments/model/layer_attention.h"
#include "experiments/observe/statistics_job.h"
#include "experiments/passes/sequences.h"
#include "experiments/plan/model_sites.h"
#include "experiments/plan/resolved_plan.h"
#include "experiments/significance/mean_error.h"
#include "kernels/attention/heads.h"
#include "quant/file/sha256.h"
#include "quant/plan/site.h"

namespace tare {

// The site of an array and the meaning of its axes. An array is found by its name, SITE.LAYER ("attn_logits.3"), or
// SITE outside the layers ("embed"); a JSON file may define other names per site:
//
//   {"q": {"name": "model.layers.{layer}.self_attn.q", "axes": "BTHD", "maps": "interleaved"},
//    "attn_logits": {"mask": "causal", "maps": "halves"}}
//
//   name   of the arrays, with {layer} in place of the layer's number, from 0; without it they are of layer 0
//   axes   one letter per dimension: B sequences, T tokens (of attn_logits, probs and difference: queries), H heads,
//          S keys, C channels, D those of a head (or C); for weights O output and I input channels. Default: BTC,
//          BHTD (q, k, v, head_out), BHTS or OI; one dimension less: no B; lambda [H] is of all tokens
//   mask   which keys a query sees in attn_logits, probs and difference: causal; none; lowest (all but those with
//          minus infinity, or the lowest value of the type); or the name of an array of booleans [T,S], [B,T,S] or
//          [B,1,T,S]. Default: lowest for attn_logits; for the others causal if all entries after a query's own
//          position are 0, else none
//   maps   for sites with heads: the map of differential attention that a head belongs to: interleaved (1, 2,
//          1, 2, ...) or halves (1, 1, .., 2, 2, ..). Default: none
//
// "attention" says how q, k and v meet, for plans on them: {"heads": "diffllama", "lambda": 0.8, "mask": "none"}; also
// "scale": 0.125, in place of a mask "window": 128, which is causal, and "variant": a name of kVariants, of which
// threshold needs "beta": 0.6.

enum class MapsOfHeads { kNone, kInterleaved, kHalves };

struct SiteLayout {
  std::string name;  // as above
  std::string axes;  // empty: as above
  std::string mask;  // empty: as above
  MapsOfHeads maps = MapsOfHeads::kNone;

  std::optional<int> MapOf(int head, int heads) const;
};

// One array of a site. strides: in values, 0 for a missing axis.
struct CapturedArray {
  ArrayInfo array;
  Site site{};
  std::optional<int> layer;
  int64_t sequences = 1, heads = 0, rows = 0, columns = 0;  // heads 0: a site without heads
  int64_t sequence_stride = 0, head_stride = 0, row_stride = 0, column_stride = 0;

  void ReadRow(const ArrayValues& values, int64_t sequence, int64_t head, int64_t row, float* out) const {
    values.Read(sequence * sequence_stride + head * head_stride + row * row_stride, column_stride, columns, out);
  }
};

bool IsAttentionMap(Site site);  // attn_logits, probs, difference: their columns are keys

struct CapturedAttention {
  std::string heads = "standard";  // HeadsNamed (kernels/attention/heads.h)
  std::optional<float> lambda;     // empty: arrays lambda.LAYER [B,H,T,1], if any
  Mask mask;                       // causal, also with a window, or full
  std::optional<float> scale;      // of the logits; empty: 1 / sqrt(width), of a threshold 1
  Variant variant = kVariants[0];
  float beta = 0;  // of a threshold
};

class CapturedLayout {
 public:
  CapturedLayout();  // names and axes as above
  // Without a path, the same. Throws Error, starting with the file's name, if the file does not follow this form.
  static CapturedLayout Load(const std::filesystem::path& path);

  const SiteLayout& Of(Site site) const { return sites_.at(site); }
  const CapturedAttention& attention() const { return attention_; }
  const std::string& canonical() const { return canonical_; }  // equal for equal files; empty without a file
  // Empty if no site has the name. Throws Error, starting with `where`, if the dimensions do not fit the axes.
  std::optional<CapturedArray> Find(const ArrayInfo& array, const std::string& where) const;

 private:
  std::map<Site, SiteLayout> sites_;
  CapturedAttention attention_;
  std::string canonical_;
};

// Files of captured arrays as the input of a statistics job: each file holds some sequences, files keep the given
// order, and all have the same sites. Two optional arrays describe a file's sequences: "attention_mask" [B,T] of 0 and
// 1, where 0 is padding (left or right), and "input_ids" [B,T], which identify runs on the same sequences.

struct CapturedFile {
  std::unique_ptr<ArrayFile> file;
  std::vector<CapturedArray> arrays;   // of sites, sorted by layer and site
  std::vector<TokenRange> tokens;      // of each sequence, without padding
  std::vector<std::string> left_over;  // arrays that match no site

  const CapturedArray* Find(Site site, std::optional<int> layer) const;  // null if there is none
};

// Throws Error if arrays differ in sequences or tokens, two have one site and layer, or none matches a site.
CapturedFile OpenCaptured(std::unique_ptr<ArrayFile> file, const CapturedLayout& layout);

struct CapturedInput {
  std::vector<std::filesystem::path> paths;
  CapturedLayout layout;
  ModelSites sites;
  std::vector<size_t> first_sequence;  // of each file
  std::vector<int64_t> lengths;        // of all sequences, in tokens
  std::vector<std::string> left_over;  // of the first file
  std::string sha256;                  // of the arrays (array_file.h)
  std::string sequences_sha256;        // of the ids; without ids, of the arrays
};

// Joins files, one after another, into one input.
class CapturedIntake {
 public:
  explicit CapturedIntake(CapturedLayout layout) { input_.layout = std::move(layout); }
  // Throws Error if the file has other sites, layers, heads or channels than the first.
  void Add(const CapturedFile& file);
  // The input from the files so far, without the hashes.
  const CapturedInput& input() const { return input_; }
  CapturedInput Take();  // the input with the hashes; call it once, at the end

 private:
  CapturedInput input_;
  std::vector<std::string> sites_;  // of the first file
  std::vector<ScoredSequence> ids_;
  bool known_ = true;  // whether every file has ids
  Sha256 sha_;
};

CapturedInput LoadCaptured(const std::vector<std::filesystem::path>& paths, const CapturedLayout& layout);

// The keys that a captured map's query sees ("mask" above). They must be contiguous: a mask with holes is an error.
class CapturedMask {
 public:
  // Throws Error for a mask that is not defined there.
  CapturedMask(const CapturedFile& file, const CapturedArray& map, const ArrayValues& values, const std::string& mask);

  // The visible keys among [tokens.begin, tokens.end); row: all keys of the query. Empty if the query sees none.
  TokenRange Visible(int64_t sequence, int64_t query, std::span<const float> row, TokenRange tokens) const;

 private:
  enum class Kind { kNone, kCausal, kLowest, kArray };
  bool Sees(int64_t sequence, int64_t query, int64_t key, float value) const;

  std::string where_;
  Kind kind_ = Kind::kNone;
  float lowest_ = 0.0f;  // values up to it are masked
  int64_t later_ = 0;    // number of keys before the first query
  std::optional<ArrayValues> array_;
  int64_t array_sequence_ = 0, columns_ = 0;  // strides
};

// name: the model's name in tables.
StatisticsSet CollectCaptured(const CapturedInput& input, const std::string& name, const StatisticsOptions& options,
                              const std::string& version, const std::filesystem::path& out, const Progress& progress);

class FullObserver;

// Makes a byte-identical file from arrays fed as they are computed, batches for files. Keeps only the current batch.
class CapturedStream {
 public:
  CapturedStream(std::string name, const CapturedLayout& layout, StatisticsOptions options, std::string version);
  ~CapturedStream();
  // Adds an array to the current batch, or starts the next batch if this one has it; its values (row-major) are copied.
  void Add(ArrayInfo array, std::span<const std::byte> values);
  // Finishes the last batch and the file. Call it once, at the end.
  void Finish(const std::filesystem::path& out);

 private:
  struct Held;
  void EndBatch();

  const std::string name_, version_;
  const StatisticsOptions options_;
  std::map<std::string, Held> held_;  // by name; its memory is reused for the next batch
  CapturedIntake intake_;
  std::unique_ptr<FullObserver> observer_;  // made with the first batch, when the sites are known
};

// Attention of one layer of another program: q, k and v of a captured file, for plans, kernels and maps, with the
// output that they give in f32. A captured head_out must agree with it: then heads, scale, lambda and mask are right.
class CapturedLayer {
 public:
  // first_sequence: of the file, in the whole input. Throws Error, naming file, layer and array, where there is no q, k
  // or v, where they do not fit the heads, for values that are not finite, and where a captured head_out is another.
  CapturedLayer(const CapturedFile& file, const CapturedLayout& layout, int layer, size_t first_sequence);
  CapturedLayer(CapturedLayer&&) = default;

  int layer() const { return layer_; }
  const std::string& where() const { return where_; }  // "c.safetensors: layer 0", with the file's path
  // The tokens of all sequences, without padding, one after another; dense.
  const AttentionProblem& problem() const { return problem_; }
  const std::vector<AttentionSequence>& sequences() const { return sequences_; }  // none is empty

  // Shows one of the sequences under a plan to an observer, as the only one of its batch.
  void Show(const AttentionSequence& sequence, SimulatedAttention& run, SiteVisitor& observer);
  // The output, [R][output heads][width], until the next call of any of these.
  const std::vector<float>& Under(SimulatedAttention& run);
  const std::vector<float>& Executed(const ExecutedPlan& plan);
  // Appends each sequence's sums of squares: of the output's differences from that in f32, and of that.
  void AddLosses(const std::vector<float>& output, WindowLosses& losses) const;

 private:
  HeadsView<const float> Take(const CapturedFile& file, Site site);
  void CheckMaps(const CapturedLayout& layout) const;
  void SetLambda(const CapturedFile& file, const CapturedAttention& how);
  void CheckOutput(const CapturedFile& file) const;

  int layer_;
  std::string where_;
  std::map<Site, std::vector<float>> rows_;
  std::vector<OutputHead> table_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> out_, exact_;
  AttentionProblem problem_;
};

// The mean of the losses. Throws Error, starting with `where`, for an output of zeros.
double MeanOf(const WindowLosses& losses, const std::string& where);

// Calls use with each layer of each file that has q, and all of the file's, ascending. Throws Error for a file without.
void ForCapturedLayers(const CapturedInput& input, const Progress& progress,
                       const std::function<void(CapturedLayer& attention, const std::vector<int>& layers)>& use);

}  // namespace tare
