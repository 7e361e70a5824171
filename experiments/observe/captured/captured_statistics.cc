// SPDX-License-Identifier: Apache-2.0
#include "experiments/observe/captured/captured_statistics.h"

#include <algorithm>
#include <cstring>

#include "experiments/observe/full_observer.h"
#include "quant/base/aligned.h"
#include "quant/base/message.h"
#include "quant/base/parallel.h"
#include "quant/statistics/statistics_file.h"

namespace tare {
namespace {

// Blocks begin at multiples of this, as in a forward pass, so that the sums of a block's rows are the same.
constexpr int64_t kBlockRows = 64;
constexpr int64_t kTaskRows = 4 * kBlockRows;  // one sequence, too, is work for several threads

// One array at hand. A head of one sequence is a matrix [rows][columns].
struct OpenArray {
  OpenArray(const CapturedFile& file, const CapturedArray& captured_array, const SiteLayout& site_layout)
      : array(captured_array), layout(site_layout), values(file.file->Values(captured_array.array)) {
    if (IsAttentionMap(array.site)) mask.emplace(file, array, values, layout.mask);
  }

  const CapturedArray& array;
  const SiteLayout& layout;
  ArrayValues values;
  std::optional<CapturedMask> mask;
};

// Shows a matrix to its visitors, block by block.
class MatrixShow {
 public:
  MatrixShow(SiteVisitors visitors, int thread, const OpenArray& open, int64_t sequence, int64_t index, int64_t head,
             TokenRange tokens)
      : visitors_(visitors), thread_(thread), open_(open), sequence_(sequence), head_(head), tokens_(tokens) {
    const CapturedArray& a = open.array;
    block_ = {.site = a.site, .layer = a.layer, .sequence = index, .slot = static_cast<int>(sequence)};
    if (a.heads > 0) {
      block_.head = static_cast<int>(head);
      block_.map = open.layout.MapOf(static_cast<int>(head), static_cast<int>(a.heads));
    }
    block_.stride = a.columns;
  }

  // Rows [first, end) of the sequence without its padding, at most kBlockRows, one row at a time where what their
  // queries see does not grow by a key, or by none, from row to row. after(first, end) follows each block.
  template <typename After = decltype([](int64_t, int64_t) {})>
  void Rows(int64_t first, int64_t end, const After& after = {}) {
    Load(first, end);
    for (int64_t begin = first; begin < end;) {
      int64_t last = begin + 1;
      const TokenRange seen = Seen(begin - first);
      int64_t step = 0;
      if (last < end && seen.begin == 0) step = Seen(last - first).end - seen.end;
      const auto goes_on = [&](int64_t row) {
        const TokenRange next = Seen(row - first);
        return seen.begin == 0 && next.begin == 0 && (step == 0 || step == 1) &&
               next.end == seen.end + step * (row - begin);
      };
      while (last < end && goes_on(last)) ++last;
      block_.first_row = begin;
      block_.rows = last - begin;
      block_.first_columns = seen.end;
      block_.column_step = last - begin > 1 ? step : 0;
      block_.window = seen.begin == 0 ? 0 : seen.Size();
      block_.values = Row(begin - first);
      if (seen.Size() > 0) {
        Visit(visitors_, block_, thread_);
        after(begin, last);
      }
      begin = last;
    }
  }

 private:
  float* Row(int64_t r) { return &rows_[static_cast<size_t>(r * open_.array.columns + first_column_)]; }
  TokenRange Seen(int64_t r) const { return seen_[static_cast<size_t>(r)]; }

  void Load(int64_t first, int64_t end) {
    const int64_t columns = open_.array.columns;
    rows_.resize(static_cast<size_t>((end - first) * columns));
    seen_.assign(static_cast<size_t>(end - first), {0, columns});
    // Keys are counted from the first that is no padding, as tokens are.
    first_column_ = open_.mask && columns == open_.array.rows ? tokens_.begin : 0;
    for (int64_t row = first; row < end; ++row) {
      const auto r = static_cast<size_t>(row - first);
      float* const values = &rows_[r * static_cast<size_t>(columns)];
      open_.array.ReadRow(open_.values, sequence_, head_, tokens_.begin + row, values);
      if (!open_.mask) continue;
      const TokenRange seen =
          open_.mask->Visible(sequence_, tokens_.begin + row, {values, static_cast<size_t>(columns)}, tokens_);
      seen_[r] = {seen.begin - first_column_, seen.end - first_column_};
    }
  }

  const SiteVisitors visitors_;
  const int thread_;
  const OpenArray& open_;
  const int64_t sequence_, head_;
  const TokenRange tokens_;
  SiteBlock block_;
  int64_t first_column_ = 0;
  std::vector<float> rows_;
  std::vector<TokenRange> seen_;
};

// Shows an array: sequences, heads and groups of kTaskRows in parallel. difference: shown after the first map's rows.
void Show(SiteVisitors visitors, const CapturedFile& file, size_t first_sequence, const OpenArray& open,
          const OpenArray* difference) {
  const CapturedArray& a = open.array;
  const auto heads = static_cast<size_t>(std::max<int64_t>(1, a.heads));
  const auto parts = static_cast<size_t>((a.rows + kTaskRows - 1) / kTaskRows);
  ParallelFor(static_cast<size_t>(a.sequences) * heads * parts, [&](size_t i, int thread) {
    const size_t sequence = i / parts / heads, head = i / parts % heads;
    const int64_t begin = static_cast<int64_t>(i % parts) * kTaskRows;
    const auto b = static_cast<int64_t>(sequence), h = static_cast<int64_t>(head);
    const auto index = static_cast<int64_t>(first_sequence + sequence);
    const TokenRange tokens = IsWeight(a.site) ? TokenRange{0, a.rows} : file.tokens[sequence];
    MatrixShow show(visitors, thread, open, b, IsWeight(a.site) ? 0 : index, h, tokens);
    std::optional<MatrixShow> follow;
    const bool pairs = difference != nullptr && open.layout.MapOf(static_cast<int>(h), static_cast<int>(a.heads)) == 1;
    if (pairs) {
      const int64_t output = open.layout.maps == MapsOfHeads::kInterleaved ? h / 2 : h;
      follow.emplace(visitors, thread, *difference, b, index, output, tokens);
    }
    const int64_t end = std::min(begin + kTaskRows, tokens.Size());
    for (int64_t first = begin; first < end; first += kBlockRows) {
      show.Rows(first, std::min(first + kBlockRows, end), [&](int64_t row, int64_t last) {
        if (follow) follow->Rows(row, last);
      });
    }
  });
}

// Shows the arrays of a file to the observer, one after another, so that it keeps state for one sequence at a time.
void ShowFile(const CapturedFile& file, const CapturedInput& input, size_t unit, FullObserver& observer) {
  for (const CapturedArray& a : file.arrays) {
    if (IsWeight(a.site) && unit > 0) continue;
    const bool has_maps =
        file.Find(Site::kProbs, a.layer) != nullptr && input.layout.Of(Site::kProbs).maps != MapsOfHeads::kNone;
    if (a.site == Site::kDifference && has_maps) continue;  // shown with its maps
    if (!observer.Wants(a.site, a.layer)) continue;
    const OpenArray open(file, a, input.layout.Of(a.site));
    std::optional<OpenArray> difference;
    const CapturedArray* const found = file.Find(Site::kDifference, a.layer);
    if (a.site == Site::kProbs && has_maps && found != nullptr) {
      if (2 * found->heads != a.heads)
        Fail("{}: {}: got {} heads, expected {}, half of those of {}", file.file->path().string(), found->array.name,
             found->heads, a.heads / 2, a.array.name);
      difference.emplace(file, *found, input.layout.Of(Site::kDifference));
    }
    const auto show = [&](SiteVisitor* visitor) {
      visitor->BeginBatch(a.sequences);
      SiteVisitor* const visitors[] = {visitor};
      Show(visitors, file, input.first_sequence[unit], open, difference ? &*difference : nullptr);
    };
    if (observer.FirstPass() != nullptr) show(observer.FirstPass());
    show(&observer);
  }
}

// A job with no unit done.
StatisticsSet JobOf(const CapturedInput& input, const std::string& name, const StatisticsOptions& options,
                    const SiteSelection& sites, const std::string& version) {
  StatisticsSet set;
  set.job = {{"model", name},
             {"tensors_sha256", input.sha256},
             {"sequences_sha256", input.sequences_sha256},
             {"sequences", std::to_string(input.lengths.size())},
             {"files", std::to_string(input.paths.size())},
             {"layout", input.layout.canonical()},
             {"version", version}};
  AddOptions(set, options, sites, input.sites);
  set.units.assign(input.paths.size(), 0);
  return set;
}

}  // namespace

StatisticsSet CollectCaptured(const CapturedInput& input, const std::string& name, const StatisticsOptions& options,
                              const std::string& version, const std::filesystem::path& out, const Progress& progress) {
  const SiteSelection sites = SiteSelection::Parse(options.sites, input.sites);
  StatisticsSet set = JobOf(input, name, options, sites, version);
  if (options.shard.count > set.units.size())
    FailUsage("--shard: got {} shards, expected at most {}, one per file", options.shard.count, set.units.size());
  FullObserver observer(sites, ParseMeasuredFormats(options.formats), options.spans, {}, options.skip_first);
  const auto lengths_of = [&](size_t unit) {
    const size_t begin = input.first_sequence[unit];
    const size_t end = unit + 1 < input.paths.size() ? input.first_sequence[unit + 1] : input.lengths.size();
    return std::span(input.lengths).subspan(begin, end - begin);
  };
  const auto run = [&](size_t unit, const Progress&) {
    ShowFile(OpenCaptured(ArrayFile::Open(input.paths[unit]), input.layout), input, unit, observer);
  };
  CollectUnits(set, observer, {lengths_of, run}, false, options, out, progress);
  return set;
}

struct CapturedStream::Held {
  ArrayInfo array;
  AlignedBuffer<std::byte> values;
  bool in_batch = false;
};

CapturedStream::CapturedStream(std::string name, const CapturedLayout& layout, StatisticsOptions options,
                               std::string version)
    : name_(std::move(name)), version_(std::move(version)), options_(std::move(options)), intake_(layout) {
  // What is wrong is said before the first batch.
  ParseMeasuredFormats(options_.formats);
  if (options_.skip_first < 0 || options_.skip_first > kMostSkipped)
    FailUsage("skip_first: got {}, expected 0 to {}", options_.skip_first, kMostSkipped);
}

CapturedStream::~CapturedStream() = default;

void CapturedStream::Add(ArrayInfo array, std::span<const std::byte> values) {
  if (held_[array.name].in_batch) EndBatch();
  Held& held = held_[array.name];
  held.array = std::move(array);
  held.in_batch = true;
  held.values.Reserve(values.size());
  // Memory, too, is read and written faster by several threads: 1 MiB is a task of some 0.1 ms.
  ParallelForBlocks(std::ssize(values), 1 << 20, [&](int64_t begin, int64_t count) {
    std::memcpy(held.values.data() + begin, values.data() + begin, static_cast<size_t>(count));
  });
}

void CapturedStream::EndBatch() {
  std::vector<std::pair<ArrayInfo, std::span<const std::byte>>> arrays;
  for (auto& [name, held] : held_) {
    if (held.in_batch) arrays.emplace_back(held.array, held.values.span());
    held.in_batch = false;
  }
  const size_t batch = intake_.input().paths.size();
  const CapturedFile file = OpenCaptured(ArraysInMemory(Formatted("batch {}", batch), arrays), intake_.input().layout);
  intake_.Add(file);
  if (observer_ == nullptr) {
    const SiteSelection sites = SiteSelection::Parse(options_.sites, intake_.input().sites);
    (void)JobOf(intake_.input(), name_, options_, sites, version_);  // refuses options that do not fit the sites
    observer_ = std::make_unique<FullObserver>(sites, ParseMeasuredFormats(options_.formats), options_.spans,
                                               std::vector<std::vector<OutputHead>>{}, options_.skip_first);
  }
  ShowFile(file, intake_.input(), batch, *observer_);
}

void CapturedStream::Finish(const std::filesystem::path& out) {
  EndBatch();
  const CapturedInput input = intake_.Take();
  StatisticsSet set = JobOf(input, name_, options_, SiteSelection::Parse(options_.sites, input.sites), version_);
  std::ranges::fill(set.units, 1);
  for (const int64_t length : input.lengths) set.tokens += static_cast<uint64_t>(length);
  set.positions = set.tokens;
  set.MergeSites(observer_->Take());
  WriteStatistics(set, out);
}

}  // namespace tare
